//! The configuration of a session: what is in force, and what can be chosen.
//!
//! The catalogue of models is the one of the workspace. What the host says later of a session names only the model in
//! force, so it never shrinks the catalogue.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure};
use serde_json::json;
use zcode_runtime::model::{HostProfile, Model, ModelRef, SessionFacts, ThoughtLevels, WorkspaceState};

use crate::client::{ConfigChoice, ConfigGroup, ConfigId, ConfigOption};

/// A choice that has been checked against the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Permission mode.
    Mode(Arc<str>),
    /// Model.
    Model(ModelRef),
    /// Thought level.
    Thought(Arc<str>),
}

/// Configuration as last said.
#[derive(Debug, Default)]
pub(crate) struct Config {
    models: Arc<[Model]>,
    model: Option<ModelRef>,
    thought: ThoughtLevels,
    mode: Option<Arc<str>>,
}

impl Config {
    /// What a session of this workspace begins with.
    pub(crate) fn of(workspace: &WorkspaceState) -> Self {
        Self {
            models: workspace.models.clone().into(),
            model: workspace.current_model.clone(),
            thought: workspace.thought.clone().unwrap_or_default(),
            mode: None,
        }
    }

    /// Takes what the host says. What it does not say stays.
    pub(crate) fn absorb(&mut self, facts: &SessionFacts, profile: &HostProfile) {
        if let Some(model) = &facts.model {
            self.model = Some(model.clone());
        }
        if let Some(thought) = &facts.thought {
            let current = thought.current.clone().or_else(|| {
                let kept = self.thought.current.take();
                kept.filter(|kept| thought.available.iter().any(|(value, _)| value == kept))
            });
            self.thought = ThoughtLevels { current, ..thought.clone() };
        }
        if let Some(mode) = facts.mode.as_deref().and_then(|mode| profile.mode(mode)) {
            self.mode = Some(Arc::clone(&mode.id));
        }
    }

    /// Takes what was set, for a host that confirms without saying what is in force now.
    pub(crate) fn take(&mut self, setting: &Setting) {
        match setting {
            Setting::Mode(mode) => self.mode = Some(Arc::clone(mode)),
            Setting::Model(model) => self.model = Some(model.clone()),
            Setting::Thought(level) => self.thought.current = Some(Arc::clone(level)),
        }
    }

    /// The mode in force.
    pub(crate) fn mode(&self) -> Option<&Arc<str>> {
        self.mode.as_ref()
    }

    /// The choice that a value names, or `None` if it is in force already.
    pub(crate) fn choose(
        &self,
        option: ConfigId,
        value: &str,
        profile: &HostProfile,
    ) -> Result<Option<Setting>, Failure> {
        match option {
            ConfigId::Mode => match profile.mode(value) {
                Some(mode) if self.mode.as_ref() == Some(&mode.id) => Ok(None),
                Some(mode) => Ok(Some(Setting::Mode(Arc::clone(&mode.id)))),
                None => Err(unknown(ErrorCode::ModeUnknown, option)),
            },
            ConfigId::Model => {
                if self.model.as_ref().is_some_and(|model| model_value(model) == value) {
                    return Ok(None);
                }
                let model = self.models.iter().find(|model| model_value(&model.id) == value);
                match model {
                    Some(Model { disabled: Some(why), .. }) => Err(unknown(ErrorCode::OptionUnknown, option)
                        .cause(format!("the model cannot be chosen now: {why}"))
                        .next_step("choose another model")),
                    Some(model) => Ok(Some(Setting::Model(model.id.clone()))),
                    None => Err(unknown(ErrorCode::OptionUnknown, option)
                        .cause("the model is not in ZCode's list")
                        .next_step("choose one of the listed models")),
                }
            }
            ConfigId::Thought => {
                if self.level().is_some_and(|level| &**level == value) {
                    return Ok(None);
                }
                let level = self.thought.available.iter().find(|(level, _)| &**level == value);
                level
                    .map(|(level, _)| Some(Setting::Thought(Arc::clone(level))))
                    .ok_or_else(|| unknown(ErrorCode::OptionUnknown, option))
            }
        }
    }

    /// The options of the session. One without choices is left out, and the value in force is always among them.
    pub(crate) fn options(&self, profile: &HostProfile) -> Vec<ConfigOption> {
        [self.mode_option(profile), self.model_option(), self.thought_option()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn level(&self) -> Option<&Arc<str>> {
        self.thought.current.as_ref().or(self.thought.default.as_ref())
    }

    fn mode_option(&self, profile: &HostProfile) -> Option<ConfigOption> {
        let choice = |mode: &zcode_runtime::model::Mode| ConfigChoice {
            value: Arc::clone(&mode.id),
            name: Arc::clone(&mode.name),
            description: Some(Arc::clone(&mode.description)),
        };
        let choices = profile.modes.iter().map(choice).collect();
        Some(ConfigOption {
            id: ConfigId::Mode,
            current: self.mode.clone()?,
            groups: vec![ConfigGroup { name: None, choices }],
        })
    }

    fn model_option(&self) -> Option<ConfigOption> {
        let current = self.model.as_ref()?;
        let mut groups: Vec<ConfigGroup> = Vec::new();
        let mut add = |id: &ModelRef, label: &Arc<str>, provider: Option<&Arc<str>>| {
            let choice =
                ConfigChoice { value: model_value(id).into(), name: Arc::clone(label), description: None };
            let known = |group: &&mut ConfigGroup| {
                group.name.as_ref().is_some_and(|(known, _)| *known == id.provider)
            };
            if let Some(group) = groups.iter_mut().find(known) {
                group.choices.push(choice);
            } else {
                let name = (Arc::clone(&id.provider), Arc::clone(provider.unwrap_or(&id.provider)));
                groups.push(ConfigGroup { name: Some(name), choices: vec![choice] });
            }
        };
        for model in self.models.iter().filter(|model| model.disabled.is_none() || model.id == *current) {
            let alike = |other: &&Model| other.label == model.label && other.id.provider == model.id.provider;
            let label = match &model.id.variant {
                Some(variant) if self.models.iter().filter(alike).count() > 1 => {
                    format!("{} ({variant})", model.label).into()
                }
                _ => Arc::clone(&model.label),
            };
            add(&model.id, &label, model.provider_label.as_ref());
        }
        if !self.models.iter().any(|model| model.id == *current) {
            let provider = self.models.iter().find(|model| model.id.provider == current.provider);
            add(current, &current.model, provider.and_then(|model| model.provider_label.as_ref()));
        }
        Some(ConfigOption { id: ConfigId::Model, current: model_value(current).into(), groups })
    }

    fn thought_option(&self) -> Option<ConfigOption> {
        if self.thought.available.is_empty() {
            return None;
        }
        let current = self.level()?;
        let choice = |(value, label): &(Arc<str>, Arc<str>)| ConfigChoice {
            value: Arc::clone(value),
            name: Arc::clone(label),
            description: None,
        };
        let mut choices: Vec<_> = self.thought.available.iter().map(choice).collect();
        if !choices.iter().any(|choice| choice.value == *current) {
            choices.push(choice(&(Arc::clone(current), Arc::clone(current))));
        }
        Some(ConfigOption {
            id: ConfigId::Thought,
            current: Arc::clone(current),
            groups: vec![ConfigGroup { name: None, choices }],
        })
    }
}

/// A model's value on the wire: its whole identity as JSON text.
fn model_value(model: &ModelRef) -> String {
    json!([&*model.provider, &*model.model, model.variant.as_deref()]).to_string()
}

/// The value is the client's text and is not repeated.
fn unknown(code: ErrorCode, option: ConfigId) -> Failure {
    Failure::new(code).with(Detail::Field, option.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::session::fixture::profile;

    fn model(provider: &str, model: &str, variant: Option<&str>) -> Model {
        Model {
            id: ModelRef { provider: provider.into(), model: model.into(), variant: variant.map(Arc::from) },
            label: model.to_uppercase().into(),
            provider_label: Some(format!("The {provider}").into()),
            disabled: None,
        }
    }

    fn levels(current: Option<&str>, default: Option<&str>, available: &[&str]) -> ThoughtLevels {
        ThoughtLevels {
            current: current.map(Arc::from),
            default: default.map(Arc::from),
            available: available.iter().map(|level| (Arc::from(*level), Arc::from(*level))).collect(),
        }
    }

    fn config() -> Config {
        let models = vec![model("p", "a", None), model("q", "b", Some("x")), model("p", "c", None)];
        let mut config = Config::of(&WorkspaceState {
            current_model: Some(models[0].id.clone()),
            models,
            thought: Some(levels(None, Some("max"), &["low", "max"])),
            ..WorkspaceState::default()
        });
        config.take(&Setting::Mode("build".into()));
        config
    }

    fn option(config: &Config, id: ConfigId) -> Option<ConfigOption> {
        config.options(&profile()).into_iter().find(|option| option.id == id)
    }

    fn values(option: &ConfigOption) -> Vec<String> {
        option.groups.iter().flat_map(|group| &group.choices).map(|choice| choice.value.to_string()).collect()
    }

    #[test]
    fn models_are_grouped_by_provider_and_named_by_their_whole_identity() {
        let option = option(&config(), ConfigId::Model).unwrap();
        assert_eq!(&*option.current, r#"["p","a",null]"#);
        assert_eq!(values(&option), [r#"["p","a",null]"#, r#"["p","c",null]"#, r#"["q","b","x"]"#]);
        let names: Vec<_> = option.groups.iter().map(|group| group.name.clone().unwrap().1).collect();
        assert_eq!(names, ["The p".into(), "The q".into()]);
    }

    #[test]
    fn an_answer_with_one_model_does_not_shrink_the_catalogue() {
        let mut config = config();
        let current = model("r", "new", None).id;
        config.absorb(&SessionFacts { model: Some(current), ..SessionFacts::default() }, &profile());
        let option = option(&config, ConfigId::Model).unwrap();
        assert_eq!(values(&option).len(), 4, "the one in force is added");
        assert!(values(&option).contains(&option.current.to_string()));
    }

    #[test]
    fn the_level_is_the_current_one_or_else_the_default_and_none_without_choices() {
        let mut config = config();
        assert_eq!(&*option(&config, ConfigId::Thought).unwrap().current, "max");
        config.take(&Setting::Thought("low".into()));
        assert_eq!(&*option(&config, ConfigId::Thought).unwrap().current, "low");
        let absorb = |config: &mut Config, thought| {
            config.absorb(&SessionFacts { thought: Some(thought), ..SessionFacts::default() }, &profile());
        };
        absorb(&mut config, levels(None, Some("high"), &["high"]));
        assert_eq!(&*option(&config, ConfigId::Thought).unwrap().current, "high", "low is there no more");
        absorb(&mut config, ThoughtLevels::default());
        assert_eq!(option(&config, ConfigId::Thought), None);
        assert_eq!(config.options(&profile()).len(), 2);
    }

    #[test]
    fn a_value_is_checked_and_one_in_force_changes_nothing() {
        let mut config = config();
        let choose = |config: &Config, option, value: &str| config.choose(option, value, &profile());
        assert_eq!(choose(&config, ConfigId::Mode, "build"), Ok(None));
        assert_eq!(choose(&config, ConfigId::Mode, "yolo"), Ok(Some(Setting::Mode("yolo".into()))));
        assert_eq!(choose(&config, ConfigId::Mode, "turbo").unwrap_err().code, ErrorCode::ModeUnknown);
        assert_eq!(choose(&config, ConfigId::Model, r#"["p","a",null]"#), Ok(None));
        assert!(matches!(choose(&config, ConfigId::Model, r#"["q","b","x"]"#), Ok(Some(Setting::Model(_)))));
        assert_eq!(choose(&config, ConfigId::Model, "a").unwrap_err().code, ErrorCode::OptionUnknown);
        assert_eq!(choose(&config, ConfigId::Thought, "max"), Ok(None), "the default is in force");
        assert_eq!(choose(&config, ConfigId::Thought, "none").unwrap_err().code, ErrorCode::OptionUnknown);
        let mut models = config.models.to_vec();
        models[1].disabled = Some("no plan".into());
        config.models = models.into();
        let failure = choose(&config, ConfigId::Model, r#"["q","b","x"]"#).unwrap_err();
        assert!(failure.cause_text().contains("no plan"));
        assert_eq!(values(&option(&config, ConfigId::Model).unwrap()).len(), 2);
    }
}
