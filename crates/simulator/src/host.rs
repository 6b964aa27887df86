//! The host: workspaces, sessions, subscriptions and the tasks that play turns.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;
use zcode_protocol::bridge::Config;

use crate::scenario::{self, Scenario, find};
use crate::serve::StderrSink;
use crate::session::Session;
use crate::store::Store;
use crate::wire::Outlet;

/// Sessions a host keeps in memory.
pub(crate) const MAX_SESSIONS: usize = 1024;

/// Locks; a panic elsewhere does not make the data unusable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running simulated host.
pub(crate) struct Host {
    outlet: Outlet,
    config: Config,
    /// Named scenario. It plays every turn.
    named: Option<Arc<Scenario>>,
    /// Scenario whose host settings count.
    settings: Arc<Scenario>,
    pub(crate) store: Store,
    stderr: Option<StderrSink>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Session by subscription number.
    subscriptions: Mutex<HashMap<u64, Arc<Session>>>,
    /// `(workspace, tool)` that need no permission any more.
    rules: Mutex<HashSet<(String, String)>>,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    ended: bool,
}

impl Host {
    pub(crate) fn new(
        outlet: Outlet,
        config: Config,
        named: Option<Arc<Scenario>>,
        store: Store,
        stderr: Option<StderrSink>,
    ) -> Self {
        let settings = named.clone().unwrap_or_else(|| by_name("tour"));
        Self {
            outlet,
            config,
            named,
            settings,
            store,
            stderr,
            sessions: Mutex::default(),
            subscriptions: Mutex::default(),
            rules: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The scenario whose host settings count.
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.settings
    }

    /// The scenario that plays this prompt.
    pub(crate) fn scenario_for(&self, prompt: &str) -> Arc<Scenario> {
        self.named.clone().unwrap_or_else(|| by_name(scenario::choose(prompt)))
    }

    pub(crate) fn stderr(&self, line: &str) {
        if let Some(sink) = &self.stderr {
            sink.line(line);
        }
    }

    /// The active session of this id in this workspace.
    pub(crate) fn session(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.sessions).get(id).cloned()
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    /// Makes a session active; the one that was there already wins. `None`: too many.
    pub(crate) fn activate(&self, session: Arc<Session>) -> Option<Arc<Session>> {
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session.id()) {
            return None;
        }
        Some(Arc::clone(sessions.entry(session.id().to_owned()).or_insert(session)))
    }

    /// Drops a session from memory; what was stored of it stays.
    pub(crate) fn deactivate(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.subscriptions).retain(|_, session| session.id() != id);
        lock(&self.sessions).remove(id)
    }

    pub(crate) fn subscribe(&self, number: u64, session: &Arc<Session>) {
        lock(&self.subscriptions).insert(number, Arc::clone(session));
    }

    pub(crate) fn unsubscribe(&self, number: u64) {
        if let Some(session) = lock(&self.subscriptions).remove(&number) {
            session.unsubscribe(number);
        }
    }

    pub(crate) fn remember(&self, workspace: &str, tool: &str) {
        lock(&self.rules).insert((workspace.to_owned(), tool.to_owned()));
    }

    pub(crate) fn remembered(&self, workspace: &str, tool: &str) -> bool {
        lock(&self.rules).contains(&(workspace.to_owned(), tool.to_owned()))
    }

    /// Runs a task that ends with the host at the latest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.running.try_join_next().is_some() {}
        if !tasks.ended {
            tasks.running.spawn(task);
        }
    }

    fn stop_tasks(&self) -> JoinSet<()> {
        let mut tasks = lock(&self.tasks);
        tasks.ended = true;
        let mut running = std::mem::take(&mut tasks.running);
        running.abort_all();
        running
    }
}

fn by_name(name: &str) -> Arc<Scenario> {
    // The names come from the built-in list, which a test parses as a whole.
    find(name).map_or_else(|| Arc::new(Scenario::empty()), scenario::Builtin::scenario)
}

/// Ends the host's tasks, also when the future that serves it is dropped.
pub(crate) struct HostGuard(Arc<Host>);

impl HostGuard {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self(host)
    }

    /// Ends all tasks and waits until they have.
    pub(crate) async fn shutdown(self) {
        let mut running = self.0.stop_tasks();
        while running.join_next().await.is_some() {}
    }
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        drop(self.0.stop_tasks());
    }
}
