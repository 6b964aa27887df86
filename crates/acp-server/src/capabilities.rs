//! The one table of what this agent offers.
//!
//! The initialize answer, the guard in front of every request and the tests read it. What is not built is listed with
//! the reason, so that a client that tries it anyway is told.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema as acp;
use serde_json::{Map, Value};

/// Id of the sign-in method.
pub const AUTH_METHOD: &str = "zcode-sign-in";

/// Id of the sign-in that a client runs in a terminal.
pub(crate) const TERMINAL_METHOD: &str = "zcode-login";

/// Arguments of this program that sign in.
const LOGIN: &str = "login";

/// Something the protocol knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Which.
    pub capability: Capability,
    /// Method that uses it, where there is one of its own.
    pub method: Option<&'static str>,
    /// Offered or not.
    pub state: State,
}

/// Whether something is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Works end to end.
    Built,
    /// Not offered, and why.
    Absent(&'static str),
}

/// What can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Capability {
    Authenticate,
    Logout,
    NewSession,
    LoadSession,
    ListSessions,
    ResumeSession,
    CloseSession,
    DeleteSession,
    SetMode,
    SetConfigOption,
    SetModel,
    Prompt,
    Image,
    Audio,
    EmbeddedContext,
    McpHttp,
    McpSse,
    AdditionalDirectories,
    SystemPrompt,
}

const fn item(capability: Capability, method: Option<&'static str>, state: State) -> Item {
    Item { capability, method, state }
}

/// Every item.
pub const REGISTRY: &[Item] = &[
    // A terminal method stands beside it for clients that can run one, see `TerminalSignIn`.
    item(Capability::Authenticate, Some("authenticate"), State::Built),
    item(Capability::Logout, Some("logout"), State::Built),
    item(Capability::NewSession, Some("session/new"), State::Built),
    item(Capability::LoadSession, Some("session/load"), State::Built),
    item(Capability::ListSessions, Some("session/list"), State::Built),
    item(Capability::ResumeSession, Some("session/resume"), State::Built),
    item(Capability::CloseSession, Some("session/close"), State::Built),
    item(
        Capability::DeleteSession,
        Some("session/delete"),
        State::Absent("sessions are deleted in the ZCode desktop app"),
    ),
    item(Capability::SetMode, Some("session/set_mode"), State::Built),
    item(Capability::SetConfigOption, Some("session/set_config_option"), State::Built),
    // No longer in the protocol, in both spellings it had; answered for clients that still send them.
    item(Capability::SetModel, Some("session/set_model"), State::Built),
    item(Capability::SetModel, Some("session/setModel"), State::Built),
    item(Capability::Prompt, Some("session/prompt"), State::Built),
    item(Capability::Image, None, State::Built),
    item(Capability::Audio, None, State::Built),
    item(Capability::EmbeddedContext, None, State::Built),
    item(Capability::McpHttp, None, State::Built),
    item(Capability::McpSse, None, State::Built),
    item(Capability::AdditionalDirectories, None, State::Absent("ZCode works in one directory")),
    item(Capability::SystemPrompt, None, State::Absent("ZCode has no channel for it")),
];

/// Whether it is offered.
pub fn offers(capability: Capability) -> bool {
    REGISTRY.iter().any(|item| item.capability == capability && item.state == State::Built)
}

/// The capability behind a request's method, or why there is none: `None` for a method nobody knows.
pub(crate) fn guard(method: &str) -> Result<Capability, Option<&'static str>> {
    match REGISTRY.iter().find(|item| item.method == Some(method)) {
        Some(Item { capability, state: State::Built, .. }) => Ok(*capability),
        Some(Item { state: State::Absent(reason), .. }) => Err(Some(reason)),
        None => Err(None),
    }
}

/// What the agent says of itself. Static: nothing is searched or started for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    pub(crate) simulated: bool,
    pub(crate) unofficial_contract: Option<String>,
}

/// How a client can let a user sign in besides the desktop app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TerminalSignIn {
    /// Not at all.
    #[default]
    None,
    /// With a method of its own.
    Method,
    /// With a command in `_meta` of the agent method, as clients did before there was one.
    Legacy,
}

impl TerminalSignIn {
    /// What the params of `initialize` declare.
    pub(crate) fn of(params: &Value) -> Self {
        let declared = |path| params.pointer(path).and_then(Value::as_bool) == Some(true);
        if declared("/clientCapabilities/auth/terminal") {
            Self::Method
        } else if declared("/clientCapabilities/_meta/terminal-auth") {
            Self::Legacy
        } else {
            Self::None
        }
    }
}

impl Identity {
    /// The offered sign-in methods. A simulated host has nothing to sign in to in a terminal.
    fn auth_methods(&self, terminal: TerminalSignIn) -> Vec<acp::AuthMethod> {
        let mut agent = acp::AuthMethodAgent::new(AUTH_METHOD, "ZCode desktop app").description(
            "Sign in with the ZCode desktop app as this user; the agent uses that sign-in.".to_owned(),
        );
        let mut methods = Vec::new();
        match terminal {
            _ if self.simulated => {}
            TerminalSignIn::None => {}
            TerminalSignIn::Method => methods.push(acp::AuthMethod::Terminal(
                acp::AuthMethodTerminal::new(TERMINAL_METHOD, "ZCode login in a terminal")
                    .description("Runs ZCode's own login; its page can be opened on any machine.".to_owned())
                    .args(vec![LOGIN.to_owned()]),
            )),
            // Without a path that a client can run there is nothing to offer.
            TerminalSignIn::Legacy => {
                let program = std::env::current_exe().ok().filter(|path| path.is_absolute());
                if let Some(program) = program.as_deref().and_then(std::path::Path::to_str) {
                    let mut meta = acp::Meta::new();
                    meta.insert(
                        "terminal-auth".into(),
                        serde_json::json!({"label": "ZCode login", "command": program, "args": [LOGIN]}),
                    );
                    agent = agent.meta(meta);
                }
            }
        }
        methods.insert(0, acp::AuthMethod::Agent(agent));
        methods
    }

    /// The initialize answer for a client that declares nothing.
    #[cfg(test)]
    pub(crate) fn answer(&self) -> acp::InitializeResponse {
        self.answer_to(TerminalSignIn::None)
    }

    /// The initialize answer for a client that can do this.
    pub(crate) fn answer_to(&self, terminal: TerminalSignIn) -> acp::InitializeResponse {
        let prompt = acp::PromptCapabilities::new()
            .image(offers(Capability::Image))
            .audio(offers(Capability::Audio))
            .embedded_context(offers(Capability::EmbeddedContext));
        let mcp =
            acp::McpCapabilities::new().http(offers(Capability::McpHttp)).sse(offers(Capability::McpSse));
        let session = acp::SessionCapabilities::new()
            .list(offers(Capability::ListSessions).then(acp::SessionListCapabilities::new))
            .resume(offers(Capability::ResumeSession).then(acp::SessionResumeCapabilities::new))
            .close(offers(Capability::CloseSession).then(acp::SessionCloseCapabilities::new))
            .delete(offers(Capability::DeleteSession).then(acp::SessionDeleteCapabilities::new))
            .additional_directories(
                offers(Capability::AdditionalDirectories)
                    .then(acp::SessionAdditionalDirectoriesCapabilities::new),
            );
        let auth = acp::AgentAuthCapabilities::new()
            .logout(offers(Capability::Logout).then(acp::LogoutCapabilities::new));
        acp::InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(
                acp::AgentCapabilities::new()
                    .load_session(offers(Capability::LoadSession))
                    .prompt_capabilities(prompt)
                    .mcp_capabilities(mcp)
                    .session_capabilities(session)
                    .auth(auth),
            )
            .auth_methods(self.auth_methods(terminal))
            .agent_info(self.info())
    }

    fn info(&self) -> acp::Implementation {
        let title = if self.simulated { "ZCode (simulated)" } else { "ZCode" };
        let mut facts = Map::new();
        if self.simulated {
            facts.insert("simulated".into(), true.into());
        }
        if let Some(contract) = &self.unofficial_contract {
            facts.insert("contract".into(), format!("{contract} (unofficial)").into());
        }
        let info = acp::Implementation::new("zcode-acp", env!("CARGO_PKG_VERSION")).title(title.to_owned());
        if facts.is_empty() { info } else { info.meta(meta(facts)) }
    }
}

/// `_meta` under the product's key.
pub(crate) fn meta(facts: Map<String, Value>) -> acp::Meta {
    let mut meta = acp::Meta::new();
    meta.insert("zcode".into(), Value::Object(facts));
    meta
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_initialize_answer() {
        let mut answer = serde_json::to_value(Identity::default().answer()).unwrap();
        assert_eq!(answer["agentInfo"]["version"].take(), env!("CARGO_PKG_VERSION"));
        insta::assert_json_snapshot!(answer);
    }

    #[test]
    fn a_simulated_agent_and_an_unofficial_contract_say_so() {
        let identity = Identity { simulated: true, unofficial_contract: Some("zcode-host-3.11.2".into()) };
        let info = serde_json::to_value(identity.answer().agent_info).unwrap();
        assert_eq!(info["title"], "ZCode (simulated)");
        assert_eq!(
            info["_meta"],
            json!({"zcode": {"simulated": true, "contract": "zcode-host-3.11.2 (unofficial)"}})
        );
    }

    fn methods(capabilities: &Value, simulated: bool) -> Value {
        let terminal = TerminalSignIn::of(&json!({"clientCapabilities": capabilities}));
        let identity = Identity { simulated, unofficial_contract: None };
        serde_json::to_value(identity.answer_to(terminal).auth_methods).unwrap()
    }

    #[test]
    fn a_terminal_sign_in_is_offered_to_those_who_can_run_it() {
        let both = json!({"auth": {"terminal": true}, "_meta": {"terminal-auth": true}});
        for declared in [json!({"auth": {"terminal": true}}), both.clone()] {
            let methods = methods(&declared, false);
            assert_eq!(methods.as_array().unwrap().len(), 2, "{methods}");
            assert_eq!(methods[0]["id"], AUTH_METHOD);
            assert!(methods[0].get("_meta").is_none(), "{methods}");
            assert_eq!(
                (&methods[1]["type"], &methods[1]["id"], &methods[1]["args"]),
                (&json!("terminal"), &json!(TERMINAL_METHOD), &json!(["login"]))
            );
        }
        assert_eq!(methods(&both, true).as_array().unwrap().len(), 1, "there is no sign-in to simulate");
    }

    #[test]
    fn without_the_capability_there_is_no_terminal_method() {
        let legacy = methods(&json!({"terminal": true, "_meta": {"terminal-auth": true}}), false);
        assert_eq!(legacy.as_array().unwrap().len(), 1, "{legacy}");
        assert!(legacy[0].get("type").is_none(), "{legacy}");
        let form = &legacy[0]["_meta"]["terminal-auth"];
        assert_eq!(form["args"], json!(["login"]));
        assert!(
            std::path::Path::new(form["command"].as_str().unwrap()).is_absolute()
                && form["label"].is_string()
        );
        for declared in [json!({}), json!({"terminal": true, "auth": {"terminal": "yes"}}), json!(null)] {
            let methods = methods(&declared, false);
            assert_eq!(methods.as_array().unwrap().len(), 1, "{methods}");
            assert!(methods[0].get("type").is_none() && methods[0].get("_meta").is_none(), "{methods}");
        }
    }

    /// Where each capability shows in the answer; what has no place there is baseline or a matter of sessions.
    fn advertised(answer: &Value, capability: Capability) -> Option<bool> {
        let caps = &answer["agentCapabilities"];
        let flag = |value: &Value| Some(value.as_bool().unwrap_or(value.is_object()));
        match capability {
            Capability::LoadSession => flag(&caps["loadSession"]),
            Capability::ListSessions => flag(&caps["sessionCapabilities"]["list"]),
            Capability::ResumeSession => flag(&caps["sessionCapabilities"]["resume"]),
            Capability::CloseSession => flag(&caps["sessionCapabilities"]["close"]),
            Capability::DeleteSession => flag(&caps["sessionCapabilities"]["delete"]),
            Capability::AdditionalDirectories => flag(&caps["sessionCapabilities"]["additionalDirectories"]),
            Capability::SystemPrompt => flag(&caps["sessionCapabilities"]["systemPrompt"]),
            Capability::Image => flag(&caps["promptCapabilities"]["image"]),
            Capability::Audio => flag(&caps["promptCapabilities"]["audio"]),
            Capability::EmbeddedContext => flag(&caps["promptCapabilities"]["embeddedContext"]),
            Capability::McpHttp => flag(&caps["mcpCapabilities"]["http"]),
            Capability::McpSse => flag(&caps["mcpCapabilities"]["sse"]),
            Capability::Logout => flag(&caps["auth"]["logout"]),
            Capability::Authenticate => {
                Some(answer["authMethods"].as_array().is_some_and(|methods| !methods.is_empty()))
            }
            Capability::NewSession
            | Capability::Prompt
            | Capability::SetMode
            | Capability::SetConfigOption
            | Capability::SetModel => None,
        }
    }

    #[test]
    fn what_is_advertised_is_what_the_guard_lets_through() {
        let answer = serde_json::to_value(Identity::default().answer()).unwrap();
        for item in REGISTRY {
            let built = item.state == State::Built;
            if let Some(shown) = advertised(&answer, item.capability) {
                assert_eq!(shown, built, "{:?} in the answer", item.capability);
            }
            if let Some(method) = item.method {
                assert_eq!(guard(method).is_ok(), built, "{method}");
            }
            assert_eq!(offers(item.capability), built);
        }
        assert_eq!(guard("_x/anything"), Err(None));
    }
}
