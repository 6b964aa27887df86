//! What of ACP v1 is done and what is not, item by item of the locked schema.
//!
//! `docs/acp-matrix.md` is made of the table here: `UPDATE_DOCS=1 cargo test -p acp-server --test matrix` writes it. An
//! item of the schema that the table lacks, a test that does not exist and a document that is not current are failures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use support::schema;

const SHA_256: &str = "22fa0a3bfdd5fe9ab6166c853f601fcdacd6e8a1d0a49363e85b074f11698a07";

enum State {
    /// Works end to end; the tests that show it.
    Done(&'static [&'static str]),
    /// Not offered, and why.
    No(&'static str),
}
use State::{Done, No};

struct Section {
    title: &'static str,
    /// What the schema has.
    items: BTreeSet<String>,
    /// What the agent does with it.
    table: &'static [(&'static str, State)],
}

const EDITOR_FILES: State =
    No("ZCode reads and writes the disk itself; unsaved text of an editor is not in its view");
const EDITOR_TERMINALS: State = No("commands run inside ZCode; their output is in the tool call");
const NO_SUBAGENTS: State =
    No("calls of a subagent are ordinary tool calls with `_meta.zcode.parentToolCallId`");
const NO_URL: State = No("the agent opens no pages; signing in is the desktop app's");
const TERMINAL_LOGIN: State = Done(&["a_terminal_sign_in_is_offered_to_those_who_can_run_it"]);
const LOGOUT: State =
    Done(&["a_client_signs_out_with_zcodes_own_command_line", "a_simulated_host_has_no_sign_in"]);

const AGENT_METHODS: &[(&str, State)] = &[
    ("initialize", Done(&["acp_init_001_and_002_version_1_and_a_valid_answer", "the_initialize_answer"])),
    (
        "authenticate",
        Done(&["acp_auth_003_a_session_after_authenticate", "authenticate_says_what_is_missing"]),
    ),
    ("logout", LOGOUT),
    ("session/new", Done(&["acp_session_001_a_new_session", "case_14_working_directories"])),
    (
        "session/load",
        Done(&["acp_load_002_replay_precedes_the_answer", "a_new_process_loads_what_another_one_stored"]),
    ),
    ("session/list", Done(&["acp_list_001_without_params", "acp_list_002_a_directory_nobody_uses"])),
    ("session/delete", No("sessions are deleted in the ZCode desktop app")),
    ("session/resume", Done(&["acp_resume_001_without_mcp_servers", "acp_resume_002_nothing_is_replayed"])),
    ("session/close", Done(&["acp_close_001_an_idle_session", "acp_close_002_the_prompt_is_cancelled"])),
    ("session/set_mode", Done(&["acp_modes_002_every_other_mode"])),
    ("session/set_config_option", Done(&["acp_config_002_a_set_returns_all"])),
    ("session/prompt", Done(&["acp_prompt_001_a_text_prompt", "case_16_prompts_that_cannot_be_sent"])),
    (
        "session/cancel",
        Done(&["acp_cancel_001_a_cancel_is_a_result", "case_9_a_cancel_while_idle_and_then_a_prompt"]),
    ),
];

const CLIENT_METHODS: &[(&str, State)] = &[
    ("session/update", Done(&["wire_forms", "acp_prompt_002_updates_are_the_sessions_own"])),
    (
        "session/request_permission",
        Done(&[
            "cases_6_to_8_answers_to_a_permission_that_are_none_are_a_denial",
            "a_permission_that_is_given_shows_the_diff",
        ]),
    ),
    ("fs/write_text_file", EDITOR_FILES),
    ("fs/read_text_file", EDITOR_FILES),
    ("terminal/create", EDITOR_TERMINALS),
    ("terminal/output", EDITOR_TERMINALS),
    ("terminal/release", EDITOR_TERMINALS),
    ("terminal/wait_for_exit", EDITOR_TERMINALS),
    ("terminal/kill", EDITOR_TERMINALS),
    ("elicitation/create", Done(&["the_form", "answers_are_checked_again", "a_form_and_its_withdrawal"])),
    ("elicitation/complete", NO_URL),
];

const PROTOCOL_METHODS: &[(&str, State)] = &[(
    "$/cancel_request",
    Done(&[
        "both_ways_to_cancel_answer_cancelled",
        "a_new_session_that_hangs_can_be_withdrawn",
        "answers_to_a_permission_and_its_withdrawal",
    ]),
)];

const AGENT_CAPABILITIES: &[(&str, State)] = &[
    ("loadSession", Done(&["acp_load_001_a_live_session"])),
    ("promptCapabilities.image", Done(&["acp_promptcap_001_an_image"])),
    ("promptCapabilities.audio", Done(&["acp_promptcap_002_a_sound"])),
    ("promptCapabilities.embeddedContext", Done(&["acp_promptcap_003_embedded_resources"])),
    ("mcpCapabilities.http", Done(&["case_15_mcp_servers", "servers_are_forwarded_strict_and_stripped"])),
    ("mcpCapabilities.sse", Done(&["case_15_mcp_servers", "servers_are_forwarded_strict_and_stripped"])),
    ("sessionCapabilities.list", Done(&["acp_list_001_without_params"])),
    ("sessionCapabilities.delete", No("sessions are deleted in the ZCode desktop app")),
    ("sessionCapabilities.additionalDirectories", No("ZCode works in one directory")),
    ("sessionCapabilities.systemPrompt", No("ZCode has no channel for it")),
    ("sessionCapabilities.resume", Done(&["acp_resume_001_without_mcp_servers"])),
    ("sessionCapabilities.close", Done(&["acp_close_001_an_idle_session"])),
    ("auth.logout", LOGOUT),
];

const CLIENT_CAPABILITIES: &[(&str, State)] = &[
    ("fs.readTextFile", EDITOR_FILES),
    ("fs.writeTextFile", EDITOR_FILES),
    ("terminal", EDITOR_TERMINALS),
    ("session.compaction", Done(&["what_is_not_declared_is_not_sent", "what_a_client_can_do"])),
    ("session.configOptions", No("every option is a choice of values; there is no boolean one")),
    ("session.notices", Done(&["what_is_not_declared_is_not_sent", "what_a_client_can_do"])),
    ("subagents", NO_SUBAGENTS),
    ("plan", Done(&["what_is_not_declared_is_not_sent", "what_a_client_can_do"])),
    ("auth.terminal", TERMINAL_LOGIN),
    ("elicitation.form", Done(&["a_form_and_its_withdrawal", "a_client_without_forms_is_never_sent_one"])),
    ("elicitation.url", NO_URL),
];

const WIRE: State = Done(&["wire_forms"]);

const UPDATES: &[(&str, State)] = &[
    ("user_message_chunk", Done(&["wire_forms", "acp_load_002_replay_precedes_the_answer"])),
    ("agent_message_chunk", Done(&["a_turn_streams_and_is_answered_behind_its_last_update"])),
    ("agent_thought_chunk", WIRE),
    ("tool_call", Done(&["a_permission_that_is_given_shows_the_diff"])),
    ("tool_call_update", Done(&["a_permission_that_is_given_shows_the_diff"])),
    ("plan", Done(&["wire_forms", "what_is_not_declared_is_not_sent"])),
    ("plan_update", Done(&["wire_forms", "what_is_not_declared_is_not_sent"])),
    ("plan_removed", Done(&["wire_forms", "what_is_not_declared_is_not_sent"])),
    ("available_commands_update", Done(&["commands_come_behind_the_answer_of_a_new_session"])),
    ("current_mode_update", Done(&["wire_forms", "acp_modes_002_every_other_mode"])),
    ("config_option_update", Done(&["wire_forms", "acp_modes_002_every_other_mode"])),
    ("session_info_update", WIRE),
    ("usage_update", WIRE),
    ("notice", Done(&["wire_forms", "what_is_not_declared_is_not_sent"])),
    ("compaction_update", Done(&["wire_forms", "what_is_not_declared_is_not_sent"])),
    ("compaction_summary_chunk", No("ZCode does not tell the summary")),
    ("subagent_update", NO_SUBAGENTS),
    ("session_message", NO_SUBAGENTS),
    ("session_message_chunk", NO_SUBAGENTS),
];

const CONTENT: &[(&str, State)] = &[
    ("text", Done(&["acp_prompt_001_a_text_prompt", "texts_are_joined_with_a_blank_line"])),
    ("image", Done(&["acp_promptcap_001_an_image", "images_sounds_and_resources_become_attachments"])),
    ("audio", Done(&["acp_promptcap_002_a_sound", "images_sounds_and_resources_become_attachments"])),
    (
        "resource_link",
        Done(&["acp_prompt_003_a_resource_link", "case_17_a_linked_file_goes_with_the_prompt"]),
    ),
    (
        "resource",
        Done(&["acp_promptcap_003_embedded_resources", "images_sounds_and_resources_become_attachments"]),
    ),
];

const TOOL_CONTENT: &[(&str, State)] = &[
    ("content", WIRE),
    ("diff", Done(&["a_permission_that_is_given_shows_the_diff"])),
    ("terminal", WIRE),
    ("session", NO_SUBAGENTS),
];

const STOP_REASONS: &[(&str, State)] = &[
    ("end_turn", Done(&["acp_prompt_001_a_text_prompt"])),
    ("max_tokens", Done(&["every_stop_reason_has_its_own_word"])),
    ("max_turn_requests", Done(&["a_turn_with_too_many_requests_and_a_refusal"])),
    ("refusal", Done(&["a_turn_with_too_many_requests_and_a_refusal"])),
    ("cancelled", Done(&["acp_cancel_001_a_cancel_is_a_result"])),
];

const ERRORS: &[(&str, State)] = &[
    ("-32700 Parse error", Done(&["case_13_what_is_not_json_is_answered_without_echo"])),
    ("-32600 Invalid request", Done(&["requests_before_and_a_second_initialize"])),
    ("-32601 Method not found", Done(&["case_19_unknown_methods"])),
    ("-32602 Invalid params", Done(&["invalid_params_name_the_field_and_never_the_value"])),
    ("-32603 Internal error", Done(&["classes"])),
    ("-32800 Request cancelled", Done(&["a_new_session_that_hangs_can_be_withdrawn"])),
    ("-32000 Authentication required", Done(&["authenticate_says_what_is_missing"])),
    ("-32002 Resource not found", Done(&["closing_answers_the_prompt_that_runs"])),
];

const AUTH_METHODS: &[(&str, State)] = &[
    ("AuthMethodAgent", Done(&["acp_auth_001_and_002_one_agent_method_whose_id_is_its_own"])),
    ("AuthMethodTerminal", TERMINAL_LOGIN),
];

const MCP_SERVERS: &[(&str, State)] = &[
    ("McpServerStdio", Done(&["case_15_mcp_servers", "servers_are_forwarded_strict_and_stripped"])),
    ("McpServerHttp", Done(&["case_15_mcp_servers", "servers_are_forwarded_strict_and_stripped"])),
    ("McpServerSse", Done(&["case_15_mcp_servers", "servers_are_forwarded_strict_and_stripped"])),
];

const PLANS: &[(&str, State)] = &[
    ("items", WIRE),
    ("file", No("later versions of the protocol have dropped this form")),
    ("markdown", WIRE),
];

const OPTIONS: &[(&str, State)] = &[
    ("select", Done(&["acp_config_001_the_value_in_force_is_among_the_options"])),
    ("boolean", No("every option is a choice of values")),
];

const PERMISSION_KINDS: &[(&str, State)] =
    &[("allow_once", WIRE), ("allow_always", WIRE), ("reject_once", WIRE), ("reject_always", WIRE)];

const NOT_SO_IN_ZCODE: State = No("no tool of ZCode is only that");

const TOOL_KINDS: &[(&str, State)] = &[
    ("read", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("edit", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("delete", NOT_SO_IN_ZCODE),
    ("move", NOT_SO_IN_ZCODE),
    ("search", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("execute", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("think", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("fetch", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("switch_mode", Done(&["every_tool_kind_and_status_has_its_own_word"])),
    ("other", Done(&["every_tool_kind_and_status_has_its_own_word"])),
];

const ELICITATIONS: &[(&str, State)] = &[("form", Done(&["the_form"])), ("url", NO_URL)];

fn sections() -> Vec<Section> {
    let section = |title, items, table| Section { title, items, table };
    vec![
        section("Methods of the agent", methods("agent"), AGENT_METHODS),
        section("Methods of the client", methods("client"), CLIENT_METHODS),
        section("Methods of both", methods("protocol"), PROTOCOL_METHODS),
        section("Capabilities of the agent", capabilities("AgentCapabilities"), AGENT_CAPABILITIES),
        section("Capabilities of the client", capabilities("ClientCapabilities"), CLIENT_CAPABILITIES),
        section("Updates", variants("SessionUpdate"), UPDATES),
        section("Content blocks", variants("ContentBlock"), CONTENT),
        section("Content of tool calls", variants("ToolCallContent"), TOOL_CONTENT),
        section("Kinds of tool calls", variants("ToolKind"), TOOL_KINDS),
        section("Kinds of permission options", variants("PermissionOptionKind"), PERMISSION_KINDS),
        section("Forms of plans", variants("PlanUpdateContent"), PLANS),
        section("Kinds of configuration options", variants("SessionConfigOption"), OPTIONS),
        section("Kinds of elicitation", variants("CreateElicitationRequest"), ELICITATIONS),
        section("Sign-in methods", references("AuthMethod"), AUTH_METHODS),
        section("MCP servers", references("McpServer"), MCP_SERVERS),
        section("Stop reasons", variants("StopReason"), STOP_REASONS),
        section("Errors", errors(), ERRORS),
    ]
}

fn methods(side: &str) -> BTreeSet<String> {
    let of = |def: &Value| (def["x-side"] == side).then(|| def["x-method"].as_str().unwrap().to_owned());
    schema::types().values().filter_map(of).collect()
}

/// Flags by their path. One that can be told apart further down is listed there.
fn capabilities(name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (key, property) in schema::types()[name]["properties"].as_object().unwrap() {
        if key == "_meta" {
            continue;
        }
        let reference = [&property["$ref"], &property["anyOf"][0]["$ref"], &property["allOf"][0]["$ref"]];
        let inner =
            reference.into_iter().find_map(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
        let members: Vec<_> = inner
            .and_then(|inner| schema::types()[inner]["properties"].as_object())
            .into_iter()
            .flat_map(|members| members.keys().filter(|key| *key != "_meta"))
            .collect();
        if members.is_empty() {
            found.insert(key.clone());
        }
        found.extend(members.into_iter().map(|member| format!("{key}.{member}")));
    }
    found
}

fn branches(name: &str) -> &'static Vec<Value> {
    let def = &schema::types()[name];
    def["oneOf"].as_array().or(def["anyOf"].as_array()).unwrap()
}

/// The words that tell the forms of a type apart.
fn variants(name: &str) -> BTreeSet<String> {
    let word = |branch: &Value| {
        let tag =
            branch["properties"].as_object().into_iter().flatten().find_map(|(_, tag)| tag["const"].as_str());
        branch["const"].as_str().or(tag).map(str::to_owned)
    };
    branches(name).iter().filter_map(word).collect()
}

/// The types a union is made of.
fn references(name: &str) -> BTreeSet<String> {
    let of = |branch: &Value| branch["$ref"].as_str()?.strip_prefix("#/$defs/").map(str::to_owned);
    branches(name).iter().filter_map(of).collect()
}

fn errors() -> BTreeSet<String> {
    let of = |branch: &Value| Some(format!("{} {}", branch["const"].as_i64()?, branch["title"].as_str()?));
    branches("ErrorCode").iter().filter_map(of).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_schema_is_the_locked_one() {
    let digest = Sha256::digest(schema::TEXT.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    assert_eq!(digest, SHA_256);
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap().replace("\r\n", "\n");
    assert!(
        lock.contains("name = \"agent-client-protocol-schema\"\nversion = \"1.17.0\"\n"),
        "the SDK has another schema: make schema/v1-*.json anew, as its README says"
    );
}

#[test]
fn every_item_of_the_schema_is_in_the_matrix() {
    for section in sections() {
        let known: BTreeSet<String> = section.table.iter().map(|(item, _)| (*item).to_owned()).collect();
        assert_eq!(section.items, known, "{}", section.title);
        assert_eq!(known.len(), section.table.len(), "{}: an item is there twice", section.title);
    }
}

#[test]
fn the_registry_and_the_matrix_say_the_same() {
    for item in acp_server::capabilities::REGISTRY {
        let Some((_, state)) = AGENT_METHODS.iter().find(|(method, _)| item.method == Some(*method)) else {
            continue;
        };
        let built = item.state == acp_server::capabilities::State::Built;
        assert_eq!(matches!(state, Done(_)), built, "{:?}", item.method);
    }
}

#[test]
fn every_test_the_matrix_names_exists() {
    fn read(directory: &Path, text: &mut String) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, text);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut text = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut text);
    read(&root().join("tests"), &mut text);
    let missing: BTreeSet<_> = sections()
        .iter()
        .flat_map(|section| section.table)
        .filter_map(|(_, state)| if let Done(tests) = state { Some(*tests) } else { None })
        .inspect(|tests| assert!(!tests.is_empty()))
        .flatten()
        .filter(|test| !text.contains(&format!("fn {test}(")))
        .collect();
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn the_document_is_current() {
    let file = root().join("docs/acp-matrix.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, document()).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        found == document(),
        "docs/acp-matrix.md is not current: UPDATE_DOCS=1 cargo test -p acp-server --test matrix"
    );
}

fn document() -> String {
    let mut out = String::from(
        "# ACP v1, item by item\n\n\
         <!-- Generated from crates/acp-server/tests/matrix.rs; UPDATE_DOCS=1 cargo test -p acp-server --test matrix. Do not edit. -->\n\n\
         Every item of the protocol's schema 1.17.0, which the SDK in use is locked to: done, with a test that shows it, or not\n\
         offered, with the reason. What is not offered is not advertised; asked for anyway, it is refused with that reason.\n\n\
         Beside the schema: `session/set_model` and `session/setModel`, which older clients send, are answered; MCP servers of\n\
         type `acp` are refused by name; the terminal stream of `_meta.terminal_output` is sent to clients that ask for it.\n\
         A list of sessions without `cwd` has those of the directories this connection has used: ZCode 3.11.2 lists by\n\
         directory only.\n",
    );
    let mut counts = BTreeMap::new();
    for section in sections() {
        let _ =
            write!(out, "\n## {}\n\n| item | state | test or reason |\n| --- | --- | --- |\n", section.title);
        for (item, state) in section.table {
            let (state, why) = match state {
                Done(tests) => {
                    ("done", tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", "))
                }
                No(reason) => ("not offered", (*reason).to_owned()),
            };
            *counts.entry(state).or_insert(0) += 1;
            let _ = writeln!(out, "| `{item}` | {state} | {why} |");
        }
    }
    let _ = write!(out, "\nItems: {} done, {} not offered.\n", counts["done"], counts["not offered"]);
    out
}

/// A validator that lets everything through would make every other test of a message worthless.
#[test]
fn the_validator_refuses_what_is_not_in_the_schema() {
    let chunk = |content: Value| json!({"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": content}});
    schema::check("SessionNotification", &chunk(json!({"type": "text", "text": "x", "_meta": {"any": 1}})))
        .unwrap();
    for bad in [
        json!({"update": {}}),
        json!({"sessionId": 1, "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}}),
        chunk(json!({"type": "text"})),
        chunk(json!({"type": "text", "text": 1})),
        chunk(json!({"type": "text", "text": "x", "strange": 1})),
        chunk(json!({"type": "strange", "text": "x"})),
        json!({"sessionId": "s", "update": {"sessionUpdate": "strange"}}),
        json!({"sessionId": "s", "update": {"sessionUpdate": "usage_update", "used": -1, "size": 1}}),
        json!({"sessionId": "s", "update": {"sessionUpdate": "usage_update", "used": 1, "size": 1}, "strange": 1}),
    ] {
        assert!(schema::check("SessionNotification", &bad).is_err(), "{bad}");
    }
    schema::check("PromptResponse", &json!({"stopReason": "end_turn"})).unwrap();
    assert!(schema::check("PromptResponse", &json!({"stopReason": "done"})).is_err());
    assert!(schema::check("Error", &json!({"code": 1.5, "message": "x"})).is_err());
}
