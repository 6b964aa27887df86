//! Requests that are offered, decoded.

use diag_model::{Failure, SessionId};
use serde_json::{Map, Value};
use session_coordinator::client::ConfigId;
use session_coordinator::{ListRequest, NewSessionRequest, OpenRequest};

use crate::capabilities::{AUTH_METHOD, Capability};
use crate::convert::content::{self, Draft};
use crate::convert::from_acp;
use crate::error_map::invalid_params;

/// A request whose params are in order.
pub(crate) enum Request {
    Authenticate,
    Logout,
    New(NewSessionRequest),
    Load(OpenRequest),
    Resume(OpenRequest),
    List(ListRequest),
    Close(SessionId),
    SetMode(SessionId, String),
    SetOption(SessionId, ConfigId, String),
    SetModel(SessionId, String),
    Prompt(SessionId, Draft),
}

/// Decodes a request. None for what has no method of its own or is not built, which the guard has refused already.
pub(crate) fn decode(
    capability: Capability,
    mut params: Map<String, Value>,
) -> Result<Option<Request>, Failure> {
    let request = match capability {
        Capability::Authenticate => match from_acp::string(&params, "methodId")? {
            AUTH_METHOD => Request::Authenticate,
            _ => return Err(invalid_params("methodId", "is not one of the offered authentication methods")),
        },
        Capability::Logout => Request::Logout,
        Capability::NewSession => Request::New(from_acp::new_session(&mut params)?),
        Capability::LoadSession => Request::Load(from_acp::load(&mut params)?),
        Capability::ResumeSession => Request::Resume(from_acp::resume(&mut params)?),
        Capability::ListSessions => Request::List(from_acp::list(&params)?),
        Capability::CloseSession => Request::Close(from_acp::session(&params)?),
        Capability::SetMode => {
            let session = from_acp::session(&params)?;
            Request::SetMode(session, from_acp::string(&params, "modeId")?.to_owned())
        }
        Capability::SetConfigOption => {
            let (session, option, value) = from_acp::config_option(&params)?;
            Request::SetOption(session, option, value)
        }
        Capability::SetModel => {
            let session = from_acp::session(&params)?;
            Request::SetModel(session, from_acp::string(&params, "modelId")?.to_owned())
        }
        Capability::Prompt => {
            let session = from_acp::session(&params)?;
            Request::Prompt(session, content::prompt(&mut params)?)
        }
        Capability::DeleteSession
        | Capability::Image
        | Capability::Audio
        | Capability::EmbeddedContext
        | Capability::McpHttp
        | Capability::McpSse
        | Capability::AdditionalDirectories
        | Capability::SystemPrompt => return Ok(None),
    };
    Ok(Some(request))
}
