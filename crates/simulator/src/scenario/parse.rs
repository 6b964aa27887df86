//! From text to a checked [`Scenario`], or to an error that names the line.

use serde_json::Value;
use toml::Spanned;

use super::model::{Question, Scenario, Step};
use super::template;

/// Version of the file format this build reads.
const FORMAT: u32 = 1;
/// Longest file.
pub(super) const MAX_FILE: usize = 1 << 20;
/// Most rounds of one `repeat`, deltas of one flood, repeated lines.
const MAX_TIMES: u64 = 10_000_000;
/// Largest single frame a scenario may ask for.
const MAX_HUGE: u64 = 1 << 30;
/// Deepest nesting of steps.
const MAX_DEPTH: usize = 8;
/// Results a turn can end with: what ZCode's source lists and what older adapters have seen.
const RESULTS: [&str; 14] = [
    "success",
    "cancelled",
    "error_max_turns",
    "error_max_budget",
    "error_during_execution",
    "error_max_tool_calls",
    "max_tokens",
    "token_limit",
    "max_turn_requests",
    "request_limit",
    "refusal",
    "interrupted",
    "stopped",
    // Not a result of any known ZCode: for tests of how an unknown one is taken.
    "unheard_of",
];

/// Why a scenario file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ScenarioError {
    /// Line, from 1.
    pub line: Option<usize>,
    /// What is wrong, in one line.
    pub message: String,
}

impl Scenario {
    /// Reads a scenario. Unknown keys are refused: a scenario that silently does less than it says is worse than none.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let at = |start: usize| Some(text.get(..start).unwrap_or(text).matches('\n').count() + 1);
        if text.len() > MAX_FILE {
            let message = format!("the file has {} bytes, at most {MAX_FILE} are read", text.len());
            return Err(ScenarioError { line: None, message });
        }
        let scenario: Scenario = toml::from_str(text).map_err(|error| ScenarioError {
            line: error.span().and_then(|span| at(span.start)),
            message: readable(error.message()),
        })?;
        let fail = |start: usize, message: String| ScenarioError { line: at(start), message };
        if *scenario.format.get_ref() != FORMAT {
            let message =
                format!("format {} is not known, this build reads {FORMAT}", scenario.format.get_ref());
            return Err(fail(scenario.format.span().start, message));
        }
        if scenario.name.is_empty() || !scenario.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        {
            let message = format!("name `{}` must be letters, digits and `-`", scenario.name.escape_debug());
            return Err(ScenarioError { line: None, message });
        }
        if scenario.stream.chunk == 0 {
            return Err(ScenarioError { line: None, message: "stream.chunk must be at least 1".into() });
        }
        if scenario.session.reannounce_ms == 0 {
            return Err(ScenarioError {
                line: None,
                message: "session.reannounce_ms must be at least 1".into(),
            });
        }
        steps(&scenario.steps, 1).map_err(|(start, message)| fail(start, message))?;
        Ok(scenario)
    }

    /// Name, as `--simulated=NAME` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Wording for the two messages of the parser that say nothing to a person.
fn readable(message: &str) -> String {
    if message.starts_with("wanted exactly 1 element") {
        return format!("a step has exactly one key ({message})");
    }
    message.lines().next().unwrap_or_default().replace("unknown variant", "unknown step or value")
}

fn steps(list: &[Spanned<Step>], depth: usize) -> Result<(), (usize, String)> {
    for step in list {
        let start = step.span().start;
        let at = |message: String| (start, message);
        if depth > MAX_DEPTH {
            return Err(at(format!("steps are nested more than {MAX_DEPTH} deep")));
        }
        own(step.get_ref()).map_err(at)?;
        for inner in nested(step.get_ref()) {
            steps(inner, depth + 1)?;
        }
    }
    Ok(())
}

/// Lists of steps inside a step.
fn nested(step: &Step) -> Vec<&[Spanned<Step>]> {
    match step {
        Step::Tool(tool) => vec![&tool.inner, &tool.allowed, &tool.denied],
        Step::Question(question) => vec![&question.answered, &question.declined],
        Step::Plan(plan) => vec![&plan.approved, &plan.rejected],
        Step::Repeat(repeat) => vec![&repeat.steps],
        Step::Background(background) => vec![&background.steps],
        _ => Vec::new(),
    }
}

fn own(step: &Step) -> Result<(), String> {
    let limit = |what: &str, value: u64, max: u64| {
        if value > max { Err(format!("{what} is {value}, at most {max}")) } else { Ok(()) }
    };
    match step {
        Step::Text(text) | Step::Thought(text) | Step::Title(text) => template::check(text),
        Step::Stream(stream) => {
            if stream.chunk == Some(0) {
                return Err("chunk must be at least 1".into());
            }
            template::check(&stream.text)
        }
        Step::Flood(flood) => {
            limit("count", flood.count, MAX_TIMES)?;
            template::check(&flood.text)
        }
        Step::Huge(bytes) => limit("huge", *bytes, MAX_HUGE),
        Step::Tool(tool) => {
            template::check_json(&tool.input)?;
            template::check(&tool.result)?;
            tool.error.iter().try_for_each(|text| template::check(text))?;
            tool.display.iter().try_for_each(template::check_json)?;
            if let Some(diff) = &tool.diff {
                template::check(&diff.path)?;
                for line in diff.hunks.iter().flat_map(|hunk| &hunk.lines) {
                    template::check(line)?;
                    if !line.starts_with([' ', '-', '+', '\\']) {
                        return Err(format!(
                            "a diff line starts with a space, `-` or `+`, this one is `{}`",
                            line.escape_debug()
                        ));
                    }
                }
            }
            for progress in &tool.progress {
                progress.tail.iter().chain(&progress.stderr).try_for_each(|text| template::check(text))?;
            }
            if let Some(ask) = &tool.ask {
                template::check(&ask.reason)?;
                limit("announce", ask.announce, 1000)?;
                if let Some(options) = &ask.options
                    && options.as_array().is_none_or(Vec::is_empty)
                {
                    return Err("ask.options must be a list with at least one option".into());
                }
            } else if !tool.denied.is_empty() {
                return Err("`denied` without `ask` is never reached".into());
            }
            Ok(())
        }
        Step::Question(Question { prompt, questions, .. }) => {
            if questions.is_empty() {
                return Err("a question needs at least one entry in `questions`".into());
            }
            template::check(prompt)?;
            questions.iter().try_for_each(|question| {
                template::check(&question.question)?;
                question.options.iter().try_for_each(|choice| template::check(&choice.label))
            })
        }
        Step::Plan(plan) => template::check(&plan.text),
        Step::Todos(todos) => todos.iter().try_for_each(|todo| template::check(&todo.content)),
        Step::Repeat(repeat) => limit("times", repeat.times, MAX_TIMES),
        Step::Emit(event) => {
            if event.as_object().is_none() {
                return Err("emit must be a table".into());
            }
            template::check_json(event)
        }
        Step::Event(event) => {
            event.payload.as_ref().map_or(Ok(()), |payload: &Value| template::check_json(payload))
        }
        Step::SeqGap(gap) => limit("seq_gap", *gap, MAX_TIMES),
        Step::ResendLast(times) => limit("resend_last", u64::from(*times), 1000),
        Step::Line(line) => limit("times", line.times, MAX_TIMES),
        Step::Stderr(lines) => limit("times", lines.times, MAX_TIMES),
        Step::End(result) if !RESULTS.contains(&result.as_str()) => {
            Err(format!("unknown result `{}`, expected one of {}", result.escape_debug(), RESULTS.join(", ")))
        }
        Step::Fail(error) => template::check(&error.message),
        Step::Background(background) => template::check(&background.command),
        Step::Usage(_)
        | Step::DelayMs(_)
        | Step::Mode(_)
        | Step::Retry(_)
        | Step::Headers(_)
        | Step::Crash(_)
        | Step::Silence(_)
        | Step::Evict(_)
        | Step::End(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "format = 1\nname = \"x\"\ndescription = \"d\"\n";

    fn refused(body: &str) -> String {
        Scenario::parse(&format!("{HEAD}{body}")).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        let message = refused("colour = 1\n");
        assert!(message.starts_with("line 4: ") && message.contains("colour"), "{message}");
        let message =
            refused("[[step]]\ntext = \"a\"\n[[step]]\n[step.tool]\nname = \"Read\"\nresultt = \"x\"\n");
        assert!(message.starts_with("line 9: ") && message.contains("resultt"), "{message}");
        let message = refused("[[step]]\ntekst = \"a\"\n");
        assert!(message.contains("line 5") && message.contains("tekst"), "{message}");
        let message = refused("[[step]]\ntext = \"a\"\nthought = \"b\"\n");
        assert!(message.starts_with("line ") && message.contains("exactly one key"), "{message}");
        let message = refused("\n[[step]]\ntext = 5\n");
        assert!(message.starts_with("line 6: "), "{message}");
        let message = refused("[[step]]\ntext = \"ok\"\n[[step]]\ntext = \"${promt}\"\n");
        assert!(message.starts_with("line 6: ") && message.contains("promt"), "{message}");
        let message = refused("[[step]]\nend = \"sucess\"\n");
        assert!(message.starts_with("line 4: ") && message.contains("sucess"), "{message}");
        let message = refused("not toml");
        assert!(message.starts_with("line 4: "), "{message}");
        let message =
            Scenario::parse("format = 2\nname = \"x\"\ndescription = \"d\"\n").unwrap_err().to_string();
        assert!(message.starts_with("line 1: ") && message.contains("format 2"), "{message}");
    }

    #[test]
    fn limits_hold() {
        assert!(refused("[[step]]\n[step.repeat]\ntimes = 99999999\nsteps = []\n").contains("at most"));
        assert!(refused("[stream]\nchunk = 0\n").contains("chunk"));
        assert!(
            refused("[[step]]\n[step.tool]\nname=\"x\"\n[[step.tool.denied]]\ntext=\"a\"\n")
                .contains("never reached")
        );
        let long = "#".repeat(MAX_FILE + 1);
        assert!(Scenario::parse(&long).unwrap_err().message.contains("bytes"));
    }
}
