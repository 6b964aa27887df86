//! Calls and questions on the wire, as a host sees them.

use super::*;
use crate::model::{Feature, HistoryPart, InputAnswer, ModelRef};

/// Runs a call while the peer answers one request, and returns the request.
async fn exchange<T>(
    peer: &mut Peer,
    call: impl Future<Output = T> + Send + 'static,
    answer: &Value,
) -> (T, Value)
where
    T: Send + 'static,
{
    let call = tokio::spawn(call);
    let request = peer.request().await;
    peer.answer(&request, answer).await;
    (call.await.unwrap(), request["call"].clone())
}

fn event(number: u64, event: &Value) -> Value {
    json!({"subscription": number, "event": event})
}

#[tokio::test]
async fn a_question_outside_the_contract_is_answered_with_no() {
    let (host, mut peer) = running().await;
    let (mut subscription, number) = subscribed(&host, &mut peer).await;
    let options = json!([{"optionId": "go", "name": "Go", "response": {"decision": "levitate"}},
        {"optionId": "stop", "name": "Stop", "response": {"decision": "deny"}}]);
    let permission = json!({"type": "permission.request", "request": {"requestId": "r1", "sessionId": "s",
        "toolCallId": "c", "toolName": "Bash", "options": options}});
    peer.send(&event(number, &permission)).await;
    let HostEvent::Violation(violation) = next(&mut subscription.events).await else {
        panic!("no violation")
    };
    assert_eq!(violation.what, "permission decision levitate");
    let call = peer.request().await;
    assert_eq!(
        call["call"],
        json!({"service": "task", "method": "respondPermission",
            "params": {"taskId": "s", "requestId": "r1", "optionId": "stop"}})
    );
    peer.answer(&call, &json!(true)).await;

    let input = json!({"type": "userInput.request", "request": {"requestId": "r2", "questions": 7}});
    peer.send(&event(number, &input)).await;
    assert!(matches!(next(&mut subscription.events).await, HostEvent::Violation(_)));
    let call = peer.request().await;
    assert_eq!(
        call["call"],
        json!({"service": "task", "method": "respondElicitation",
            "params": {"taskId": "s", "requestId": "r2", "action": "decline"}})
    );

    let headers =
        json!({"type": "providerRuntimeHeaders.request", "request": {"requestId": "r3", "sessionId": "s"}});
    peer.send(&event(number, &headers)).await;
    assert!(
        matches!(next(&mut subscription.events).await, HostEvent::Headers(_)),
        "understood: not ours to answer"
    );
    peer.send(&delta(number, 9)).await;
    assert!(matches!(next(&mut subscription.events).await, HostEvent::Event(_)), "the stream goes on");
}

#[tokio::test]
async fn broken_questions_do_not_pile_up() {
    let (host, mut peer) = running().await;
    let (mut subscription, number) = subscribed(&host, &mut peer).await;
    let input = json!({"type": "userInput.request", "request": {"requestId": "r", "questions": 7}});
    for _ in 0..100 {
        peer.send(&event(number, &input)).await;
        assert!(matches!(next(&mut subscription.events).await, HostEvent::Violation(_)));
    }
    // None of them was answered, so no more than the limit are on their way.
    for _ in 0..32 {
        assert_eq!(peer.request().await["call"]["method"], "respondElicitation");
    }
    let (_, call) = exchange(
        &mut peer,
        {
            let host = host.clone();
            async move { host.stop(Path::new("/w"), &session()).await }
        },
        &Value::Null,
    )
    .await;
    assert_eq!(call["method"], "stopGeneration");
}

#[tokio::test]
async fn stored_sessions_are_opened_with_their_servers() {
    let (host, mut peer) = running().await;
    let servers = vec![json!({"name": "n", "command": "c", "args": [], "env": []})];
    let given = servers.clone();
    let resume = async move { host.resume_session(Path::new("/w"), &session(), &given).await };
    let (opened, call) = exchange(&mut peer, resume, &snapshot(4)).await;
    assert_eq!(opened.unwrap().facts.mode.as_deref(), Some("build"));
    assert_eq!(
        call,
        json!({"service": "agent", "method": "resumeSession",
            "params": {"workspacePath": "/w", "sessionId": "s", "mcpServers": servers}})
    );
}

#[tokio::test]
async fn messages_are_counted_page_by_page_and_a_circle_ends() {
    let (host, mut peer) = running().await;
    let message =
        |id: &str| json!({"info": {"messageId": id, "role": "user"}, "parts": [{"type": "hologram"}]});
    let counting = tokio::spawn({
        let host = host.clone();
        async move { host.message_count(Path::new("/w"), &session()).await }
    });
    let pages = [
        (Value::Null, json!([message("m1"), message("m2")])),
        (json!("m2"), json!([message("m3")])),
        (json!("m3"), json!([message("m3")])),
    ];
    for (after, page) in &pages {
        let request = peer.request().await;
        assert_eq!(request["call"]["params"]["afterMessageId"], *after);
        peer.answer(&request, page).await;
    }
    assert_eq!(counting.await.unwrap().unwrap(), Some(3));

    let read = {
        let host = host.clone();
        async move { host.read_history(Path::new("/w"), &session(), Some("m1"), 100_000).await }
    };
    let (page, call) = exchange(&mut peer, read, &json!([message("m2")])).await;
    assert_eq!(call["params"]["limit"], 200, "a page is bounded");
    assert_eq!(page.unwrap()[0].parts, [HistoryPart::Skipped]);

    let counting = tokio::spawn(async move { host.message_count(Path::new("/w"), &session()).await });
    let request = peer.request().await;
    let error = json!({"code": -32601, "message": "Method not found"});
    peer.send(&json!({"id": request["id"], "error": error})).await;
    assert_eq!(counting.await.unwrap().unwrap(), None, "it cannot say");
}

#[tokio::test]
async fn settings_and_commands_have_the_hosts_parameters() {
    let (host, mut peer) = running().await;
    let model = ModelRef { provider: "p".into(), model: "m".into(), variant: None };
    let call = {
        let host = host.clone();
        async move { host.set_model(Path::new("/w"), &session(), &model).await }
    };
    let (facts, call) = exchange(&mut peer, call, &snapshot(4)).await;
    assert_eq!(facts.unwrap().mode.as_deref(), Some("build"));
    assert_eq!(
        call["params"],
        json!({"workspacePath": "/w", "sessionId": "s", "model": {"providerId": "p", "modelId": "m"},
            "persistAsWorkspaceLastUsed": true})
    );
    let call = {
        let host = host.clone();
        async move { host.set_thought(Path::new("/w"), &session(), "low").await }
    };
    let (_, call) = exchange(&mut peer, call, &snapshot(4)).await;
    assert_eq!(
        call["params"],
        json!({"workspacePath": "/w", "sessionId": "s", "thoughtLevel": "low", "persistAsWorkspaceLastUsed": true})
    );
    let call = {
        let host = host.clone();
        async move { host.compact(Path::new("/w"), &session(), &"i".into(), None).await }
    };
    let answer =
        json!({"response": "busy", "snapshot": snapshot(4), "compact": {"state": "already_running"}});
    let (outcome, call) = exchange(&mut peer, call, &answer).await;
    let outcome = outcome.unwrap();
    assert_eq!((&*outcome.text, outcome.already_running), ("busy", true));
    assert_eq!(call["params"], json!({"workspacePath": "/w", "sessionId": "s", "inputId": "i"}));
    for (started, expected) in
        [(Value::Null, false), (json!(false), false), (json!(true), true), (json!({"turnId": "t"}), true)]
    {
        let call = {
            let host = host.clone();
            async move { host.goal(Path::new("/w"), &session(), "set", Some("win")).await }
        };
        let answer = json!({"response": "Goal set", "startedTurn": started});
        let (outcome, call) = exchange(&mut peer, call, &answer).await;
        assert_eq!(outcome.unwrap().started_turn, expected, "{started}");
        assert_eq!(
            call["params"],
            json!({"workspacePath": "/w", "sessionId": "s", "action": "set", "objective": "win"})
        );
    }
}

#[tokio::test]
async fn a_feature_that_the_contract_lacks_is_not_offered() {
    let mut contract = Contract::clone(&Contract::embedded());
    contract.protocol.agent_methods.retain(|method| method != "goalSession");
    let (host, _peer) = running_under(Arc::new(contract)).await;
    assert!(!host.offers(Feature::Goal));
    for feature in [
        Feature::Resume,
        Feature::List,
        Feature::History,
        Feature::Model,
        Feature::Thought,
        Feature::Mode,
        Feature::Compact,
    ] {
        assert!(host.offers(feature), "{feature:?}");
    }
}

#[tokio::test]
async fn an_answer_to_a_question_keeps_its_order() {
    let (host, mut peer) = running().await;
    let answers = vec![
        ("B?".to_owned(), vec!["x".to_owned()]),
        ("A?".to_owned(), vec!["y".to_owned(), "z".to_owned()]),
    ];
    let answer = async move {
        host.answer_input(Path::new("/w"), &session(), &"r".into(), &InputAnswer::Accept(answers)).await
    };
    let (taken, call) = exchange(&mut peer, answer, &json!(true)).await;
    assert!(taken.unwrap());
    assert_eq!(
        call["params"].to_string(),
        r#"{"taskId":"s","requestId":"r","action":"accept","content":{"answers":{"B?":"x","A?":["y","z"]}}}"#
    );
}
