//! Modes, configuration and lists of sessions as ACP types.

use agent_client_protocol::v1::schema as acp;
use session_coordinator::client::{ConfigChoice, ConfigId, ConfigOption};
use session_coordinator::{ListAnswer, ListedSession, ModeState, SessionSetup};

/// The modes and options of an open session.
pub(crate) fn setup(setup: SessionSetup) -> (acp::SessionModeState, Vec<acp::SessionConfigOption>) {
    (modes(&setup.modes), options(setup.options))
}

/// Options, whole.
pub(crate) fn options(options: Vec<ConfigOption>) -> Vec<acp::SessionConfigOption> {
    options.into_iter().map(config_option).collect()
}

fn modes(modes: &ModeState) -> acp::SessionModeState {
    let mode = |mode: &session_coordinator::model::Mode| {
        acp::SessionMode::new(mode.id.clone(), mode.name.to_string())
            .description(mode.description.to_string())
    };
    acp::SessionModeState::new(modes.current.clone(), modes.available.iter().map(mode).collect())
}

/// One option.
pub(crate) fn config_option(option: ConfigOption) -> acp::SessionConfigOption {
    let (name, description, category) = match option.id {
        ConfigId::Mode => {
            ("Mode", "What the agent may do without asking.", acp::SessionConfigOptionCategory::Mode)
        }
        ConfigId::Model => ("Model", "The model that answers.", acp::SessionConfigOptionCategory::Model),
        ConfigId::Thought => (
            "Thinking",
            "How much the model thinks before it answers.",
            acp::SessionConfigOptionCategory::ThoughtLevel,
        ),
    };
    let choice = |choice: ConfigChoice| {
        acp::SessionConfigSelectOption::new(choice.value, choice.name.to_string())
            .description(choice.description.map(|description| description.to_string()))
    };
    // A list is grouped or flat as a whole.
    let grouped = option.groups.iter().any(|group| group.name.is_some());
    let values = if grouped {
        let groups = option.groups.into_iter().map(|group| {
            let (id, name) = group.name.unwrap_or_else(|| ("other".into(), "Other".into()));
            let choices = group.choices.into_iter().map(choice).collect();
            acp::SessionConfigSelectGroup::new(id, name.to_string(), choices)
        });
        acp::SessionConfigSelectOptions::Grouped(groups.collect())
    } else {
        let choices = option.groups.into_iter().flat_map(|group| group.choices).map(choice);
        acp::SessionConfigSelectOptions::Ungrouped(choices.collect())
    };
    acp::SessionConfigOption::select(option.id.as_str(), name, option.current, values)
        .description(description.to_owned())
        .category(category)
}

/// A page of sessions.
pub(crate) fn list(answer: ListAnswer) -> acp::ListSessionsResponse {
    let session = |session: ListedSession| {
        acp::SessionInfo::new(session.id.as_str().to_owned(), session.cwd)
            .title(session.title.map(|title| title.to_string()))
            .updated_at(session.updated_ms.map(iso_8601))
    };
    acp::ListSessionsResponse::new(answer.sessions.into_iter().map(session).collect::<Vec<_>>())
        .next_cursor(answer.next)
}

/// Milliseconds since 1970 as a date and time in UTC. Beyond the year 9999 the last one that has four digits.
fn iso_8601(ms: u64) -> String {
    const LAST: u64 = 253_402_300_799_999;
    let ms = ms.min(LAST);
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Days are counted from 1 March of the year 0, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_001, "2000-03-01T00:00:00.001Z"),
            (1_796_083_200_000, "2026-12-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso_8601(ms), text);
        }
    }
}
