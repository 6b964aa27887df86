//! The client as the session machines see it.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use agent_client_protocol::{Client, ConnectionTo};
use diag_model::SessionId;
use futures::future::BoxFuture;
use session_coordinator::client::{
    ClientPort, ClientProfile, FormAnswer, FormPrompt, PermissionAnswer, PermissionPrompt, Update,
};

use crate::convert::{form, to_acp};
use crate::transport::ledger::Ledger;

/// Queues what goes to the client. Updates, requests and answers share the SDK's one queue, which keeps their order.
pub(crate) struct Port {
    /// Known from the first message on; sessions exist only after that.
    connection: OnceLock<ConnectionTo<Client>>,
    /// What the client declared; nothing until it has.
    profile: RwLock<ClientProfile>,
    ledger: Arc<Ledger>,
}

impl Port {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Self {
        Self { connection: OnceLock::new(), profile: RwLock::default(), ledger }
    }

    pub(crate) fn set_profile(&self, profile: ClientProfile) {
        *self.profile.write().unwrap_or_else(PoisonError::into_inner) = profile;
    }

    fn profile(&self) -> ClientProfile {
        *self.profile.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attach(&self, connection: &ConnectionTo<Client>) {
        self.connection.get_or_init(|| connection.clone());
    }
}

impl ClientPort for Port {
    fn update(&self, session: &SessionId, update: Update) {
        let Some(connection) = self.connection.get() else { return };
        let weight = update.weight();
        let Some(notification) = to_acp::update(session, update, self.profile()) else { return };
        // A refusal means that the connection has ended: nobody is left to tell.
        let _ = self.ledger.enter(weight, || connection.send_notification(notification));
    }

    fn ask_permission(
        &self,
        session: &SessionId,
        prompt: PermissionPrompt,
    ) -> BoxFuture<'static, PermissionAnswer> {
        let Some(connection) = self.connection.get() else {
            return Box::pin(std::future::ready(PermissionAnswer::Failed));
        };
        let sent = connection.send_request(to_acp::permission(session, prompt));
        Box::pin(async move {
            match sent.block_task().await {
                Ok(answer) => to_acp::permission_answer(answer),
                Err(error) => {
                    tracing::info!(code = error.code.value(), "permission.unanswered");
                    PermissionAnswer::Failed
                }
            }
        })
    }

    fn ask_form(&self, session: &SessionId, form: FormPrompt) -> BoxFuture<'static, FormAnswer> {
        // A client that has not declared forms is never sent one.
        let connection = self.connection.get().filter(|_| self.profile().forms);
        let Some(connection) = connection else {
            return Box::pin(std::future::ready(FormAnswer::Failed));
        };
        let sent = connection.send_request(form::request(session, &form));
        Box::pin(async move {
            match sent.block_task().await {
                Ok(answer) => form::answer(&form.questions, answer),
                Err(error) => {
                    tracing::info!(code = error.code.value(), "form.unanswered");
                    FormAnswer::Failed
                }
            }
        })
    }

    fn in_flight(&self) -> usize {
        self.ledger.in_flight()
    }

    fn room(&self, bytes: usize) -> BoxFuture<'static, ()> {
        self.ledger.room(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::time::Duration;

    use agent_client_protocol::{Agent, Dispatch, Error, HandleDispatchFrom, Handled, Lines};
    use futures::SinkExt as _;
    use futures::channel::mpsc;
    use serde_json::{Value, json};
    use session_coordinator::client::{ChoiceKind, PermissionChoice, ToolPatch};
    use session_coordinator::model::{Question, QuestionOption};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::transport::writer::Writer;

    struct Attach(Arc<Port>, Option<tokio::sync::oneshot::Sender<()>>);

    impl HandleDispatchFrom<Client> for Attach {
        async fn handle_dispatch_from(
            &mut self,
            message: Dispatch,
            connection: ConnectionTo<Client>,
        ) -> Result<Handled<Dispatch>, Error> {
            self.0.attach(&connection);
            self.1.take().into_iter().for_each(|ready| ready.send(()).unwrap());
            Ok(Handled::No { message, retry: false })
        }

        fn describe_chain(&self) -> impl std::fmt::Debug {
            "test"
        }
    }

    /// A port on a real connection: the input as a channel of lines, the output as a pipe.
    async fn attached() -> (Arc<Port>, mpsc::UnboundedSender<std::io::Result<String>>, std::io::PipeReader) {
        let (output, agent_output) = std::io::pipe().unwrap();
        let (mut input, lines) = mpsc::unbounded();
        let ledger = Arc::new(Ledger::default());
        let writer = Writer::start(agent_output, Arc::clone(&ledger), CancellationToken::new()).unwrap();
        let port = Arc::new(Port::new(ledger));
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let builder = Agent.v1().with_handler(Attach(Arc::clone(&port), Some(ready)));
        let transport = Lines::new(writer.sink(), lines);
        tokio::spawn(async move {
            let _writer = writer;
            builder.connect_to(transport).await
        });
        input.send(Ok(json!({"jsonrpc": "2.0", "method": "x"}).to_string())).await.unwrap();
        is_ready.await.unwrap();
        (port, input, output)
    }

    #[tokio::test]
    async fn a_flood_is_counted_exactly_until_it_is_read() {
        let (port, _input, output) = attached().await;
        let session = SessionId::from("s");
        let text = "x".repeat(1000);
        let one = || Update::AgentText { message: None, text: text.clone() };
        let mut handed = 0;
        for _ in 0..5000 {
            port.update(&session, one());
            handed += one().weight();
        }
        assert_eq!(port.in_flight(), handed, "nothing is written while the task has not run");
        assert!(tokio::time::timeout(Duration::from_millis(50), port.room(0)).await.is_err(), "nobody reads");
        assert!(port.in_flight() > 0);
        let reader = std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .take(5000)
                .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
                .collect()
        });
        tokio::time::timeout(Duration::from_secs(10), port.room(0)).await.unwrap();
        assert_eq!(port.in_flight(), 0);
        let lines: Vec<Value> = tokio::task::spawn_blocking(|| reader.join().unwrap()).await.unwrap();
        assert!(lines.iter().all(|line| line["params"]["update"]["content"]["text"] == text.as_str()));
    }

    #[tokio::test]
    async fn answers_to_a_permission_and_its_withdrawal() {
        let (port, mut input, output) = attached().await;
        let mut output = BufReader::new(output);
        let ask = || {
            let prompt = PermissionPrompt {
                call: ToolPatch::new("c".into()),
                options: vec![PermissionChoice {
                    id: "yes".into(),
                    name: "Yes".into(),
                    kind: ChoiceKind::AllowOnce,
                    native_kind: "allow".into(),
                }],
            };
            port.ask_permission(&"s".into(), prompt)
        };
        for (answer, expected) in [
            (
                json!({"result": {"outcome": {"outcome": "selected", "optionId": "nope"}}}),
                PermissionAnswer::Selected("nope".into()),
            ),
            (json!({"result": {"outcome": {"outcome": "cancelled"}}}), PermissionAnswer::Cancelled),
            (json!({"result": {"outcome": "allow_once"}}), PermissionAnswer::Failed),
            (json!({"result": null}), PermissionAnswer::Failed),
            (json!({"error": {"code": -32603, "message": "no"}}), PermissionAnswer::Failed),
        ] {
            let asked = tokio::spawn(ask());
            let request: Value = {
                let mut line = String::new();
                (output, line) = tokio::task::spawn_blocking(move || {
                    output.read_line(&mut line).unwrap();
                    (output, line)
                })
                .await
                .unwrap();
                serde_json::from_str(&line).unwrap()
            };
            assert_eq!(request["method"], "session/request_permission");
            let mut answer = answer;
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = request["id"].clone();
            input.send(Ok(answer.to_string())).await.unwrap();
            let got = tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
            assert_eq!(got, expected, "{answer}");
        }

        let withdrawn = ask();
        tokio::task::yield_now().await;
        drop(withdrawn);
        let (request, withdrawal) = tokio::task::spawn_blocking(move || {
            let mut lines = output.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
            (lines.next().unwrap(), lines.next().unwrap())
        })
        .await
        .unwrap();
        assert_eq!(withdrawal["method"], "$/cancel_request");
        assert_eq!(withdrawal["params"]["requestId"], request["id"]);

        let pending = tokio::spawn(ask());
        drop(input);
        let got = tokio::time::timeout(Duration::from_secs(10), pending).await.unwrap().unwrap();
        assert_eq!(got, PermissionAnswer::Failed, "the connection ended");
    }

    fn form() -> FormPrompt {
        let option =
            |value: &str| QuestionOption { value: value.into(), label: value.into(), description: None };
        FormPrompt {
            message: "ZCode asks".into(),
            call: None,
            questions: vec![Question {
                question: "Which?".into(),
                header: None,
                options: vec![option("a"), option("b")],
                multi: false,
            }],
        }
    }

    #[tokio::test]
    async fn a_form_and_its_withdrawal() {
        let (port, mut input, output) = attached().await;
        port.set_profile(ClientProfile { forms: true, ..ClientProfile::default() });
        let mut output = BufReader::new(output);
        for (answer, expected) in [
            (
                json!({"result": {"action": "accept", "content": {"q1": "b"}}}),
                FormAnswer::Accepted(vec![vec!["b".into()]]),
            ),
            (json!({"result": {"action": "accept", "content": {"q1": "nope"}}}), FormAnswer::Failed),
            (json!({"result": {"action": "decline"}}), FormAnswer::Declined),
            (json!({"result": {"action": "cancel"}}), FormAnswer::Cancelled),
            (json!({"result": "b"}), FormAnswer::Failed),
            (json!({"error": {"code": -32603, "message": "no"}}), FormAnswer::Failed),
        ] {
            let asked = tokio::spawn(port.ask_form(&"s".into(), form()));
            let request: Value;
            (output, request) = tokio::task::spawn_blocking(move || {
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                (output, serde_json::from_str(&line).unwrap())
            })
            .await
            .unwrap();
            assert_eq!(request["method"], "elicitation/create");
            let mut answer = answer;
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = request["id"].clone();
            input.send(Ok(answer.to_string())).await.unwrap();
            let got = tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
            assert_eq!(got, expected, "{answer}");
        }
        let withdrawn = port.ask_form(&"s".into(), form());
        tokio::task::yield_now().await;
        drop(withdrawn);
        let (request, withdrawal) = tokio::task::spawn_blocking(move || {
            let mut lines = output.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
            (lines.next().unwrap(), lines.next().unwrap())
        })
        .await
        .unwrap();
        assert_eq!(withdrawal["method"], "$/cancel_request");
        assert_eq!(withdrawal["params"]["requestId"], request["id"]);
    }

    #[tokio::test]
    async fn a_client_without_forms_is_never_sent_one() {
        let (port, input, mut output) = attached().await;
        assert_eq!(port.ask_form(&"s".into(), form()).await, FormAnswer::Failed);
        drop(input);
        let sent = tokio::task::spawn_blocking(move || {
            let mut sent = Vec::new();
            output.read_to_end(&mut sent).unwrap();
            sent
        });
        assert!(tokio::time::timeout(Duration::from_secs(10), sent).await.unwrap().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_leaves_nothing_in_flight() {
        let (port, input, mut output) = attached().await;
        drop(input);
        let end = tokio::task::spawn_blocking(move || output.read_to_end(&mut Vec::new()).unwrap());
        tokio::time::timeout(Duration::from_secs(10), end).await.unwrap().unwrap();
        let update = Update::AgentText { message: None, text: "late".into() };
        port.update(&"s".into(), update);
        assert_eq!(port.in_flight(), 0);
    }
}
