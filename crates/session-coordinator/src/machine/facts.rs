//! Facts about a session as last said and as last shown: todos, commands, context occupancy, configuration.
//!
//! What is to be shown follows from the difference between the two, so that holding facts back needs no queue and only
//! the newest of each kind is ever sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zcode_runtime::model::{ContextUsage, SessionFacts, SlashCommand, Todo, WorkspaceState};

use crate::client::{ConfigOption, Update};

/// How long after the answer that introduces a session its news follow. Clients drop what comes at once.
pub(crate) const NEWS_AFTER: Duration = Duration::from_millis(50);
/// Built-in commands that have a way to run.
const BUILT_IN: [&str; 3] = ["compact", "goal", "plan"];

/// Facts of one session, without its title.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    todos: Vec<Todo>,
    commands: Vec<SlashCommand>,
    usage: Option<ContextUsage>,
    shown: Shown,
    /// When commands and context occupancy may be shown; none until the session is introduced.
    pub(crate) news_from: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shown {
    plan: Vec<Todo>,
    commands: Vec<SlashCommand>,
    usage: Option<ContextUsage>,
    mode: Option<Arc<str>>,
    options: Vec<ConfigOption>,
}

impl Facts {
    /// What a session of this workspace begins with.
    pub(crate) fn of(workspace: &WorkspaceState) -> Self {
        let mut facts = Self::default();
        facts.set_commands(&workspace.commands);
        facts
    }

    /// Takes what the host says. What it does not say stays.
    pub(crate) fn absorb(&mut self, facts: &SessionFacts) {
        if let Some(todos) = &facts.todos {
            self.todos.clone_from(todos);
        }
        if let Some(commands) = &facts.commands {
            self.set_commands(commands);
        }
        self.usage = facts.context.or(self.usage);
    }

    /// Only what can run is offered: made by the user or a skill, or built in with a way to run.
    fn set_commands(&mut self, commands: &[SlashCommand]) {
        let runs = |command: &&SlashCommand| !command.builtin || BUILT_IN.contains(&&*command.name);
        self.commands = commands.iter().filter(runs).cloned().collect();
    }

    /// A whole new todo list.
    pub(crate) fn set_todos(&mut self, todos: Vec<Todo>) {
        self.todos = todos;
    }

    /// The configuration that an answer has just told.
    pub(crate) fn told(&mut self, mode: Option<&Arc<str>>, options: &[ConfigOption]) {
        self.shown.mode = mode.cloned();
        self.shown.options = options.to_vec();
    }

    /// Everything counts as not shown, since the client is being told the session anew.
    pub(crate) fn forget_shown(&mut self) {
        let Shown { mode, options, .. } = std::mem::take(&mut self.shown);
        (self.shown.mode, self.shown.options) = (mode, options);
    }

    /// Mode and options, if they are not as shown.
    pub(crate) fn configuration(
        &mut self,
        mode: Option<&Arc<str>>,
        options: Vec<ConfigOption>,
    ) -> Vec<Update> {
        let mut updates = Vec::new();
        if let Some(mode) = mode
            && self.shown.mode.as_ref() != Some(mode)
        {
            self.shown.mode = Some(Arc::clone(mode));
            updates.push(Update::Mode(Arc::clone(mode)));
        }
        if self.shown.options != options {
            self.shown.options.clone_from(&options);
            updates.push(Update::Options(options));
        }
        updates
    }

    /// The todo list with what is proposed, if it is not as shown.
    pub(crate) fn plan(&mut self, proposed: impl Iterator<Item = Todo>) -> Option<Update> {
        let plan: Vec<_> = self.todos.iter().cloned().chain(proposed).collect();
        (self.shown.plan != plan).then(|| {
            self.shown.plan.clone_from(&plan);
            Update::Plan(plan)
        })
    }

    /// Commands and context occupancy, if they are not as shown and their time has come.
    pub(crate) fn news(&mut self, now: Instant) -> Vec<Update> {
        let mut updates = Vec::new();
        if self.news_from.is_none_or(|from| from > now) {
            return updates;
        }
        if self.commands_wait() {
            self.shown.commands.clone_from(&self.commands);
            updates.push(Update::Commands(self.commands.clone()));
        }
        if let Some(usage) = self.usage_news() {
            self.shown.usage = Some(usage);
            updates.push(Update::Usage(usage));
        }
        updates
    }

    /// Occupancy that is not as shown. An empty context is worth saying only after a full one.
    fn usage_news(&self) -> Option<ContextUsage> {
        self.usage.filter(|usage| self.shown.usage.map_or(usage.used > 0, |shown| shown != *usage))
    }

    /// Commands are known that have not been shown.
    pub(crate) fn commands_wait(&self) -> bool {
        self.shown.commands != self.commands
    }

    /// When something wants to be shown.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.news_from.filter(|_| self.commands_wait() || self.usage_news().is_some())
    }
}

#[cfg(test)]
mod tests {
    use zcode_runtime::model::{TodoPriority, TodoStatus};

    use super::*;

    fn command(name: &str, builtin: bool) -> SlashCommand {
        SlashCommand { name: name.into(), description: name.into(), input_hint: None, builtin }
    }

    #[test]
    fn only_commands_that_can_run_are_offered_and_not_before_their_time() {
        let commands = vec![command("compact", true), command("login", true), command("login", false)];
        let mut facts = Facts::of(&WorkspaceState { commands, ..WorkspaceState::default() });
        let now = Instant::now();
        assert!(facts.commands_wait() && facts.news(now).is_empty(), "not introduced");
        facts.news_from = Some(now + NEWS_AFTER);
        assert!(facts.news(now).is_empty());
        let updates = facts.news(now + NEWS_AFTER);
        let expected = vec![command("compact", true), command("login", false)];
        assert_eq!(updates, [Update::Commands(expected)]);
        assert!(facts.news(now + NEWS_AFTER).is_empty() && facts.deadline().is_none());
    }

    #[test]
    fn a_list_that_becomes_empty_is_said_and_one_that_never_was_is_not() {
        let mut facts = Facts::default();
        assert_eq!(facts.plan(std::iter::empty()), None);
        let (status, priority) = (TodoStatus::Completed, TodoPriority::Low);
        facts.set_todos(vec![Todo { content: "a".into(), status, priority }]);
        assert!(matches!(facts.plan(std::iter::empty()), Some(Update::Plan(plan)) if plan.len() == 1));
        assert_eq!(facts.plan(std::iter::empty()), None);
        facts.absorb(&SessionFacts { todos: Some(Vec::new()), ..SessionFacts::default() });
        assert_eq!(facts.plan(std::iter::empty()), Some(Update::Plan(Vec::new())));
    }
}
