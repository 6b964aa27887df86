//! The `usage` service.

use serde_json::json;

use super::Outcome;
use crate::host::Host;
use crate::session::now_ms;
use crate::wire::ServiceError;

const HOUR: u64 = 3_600_000;

pub(super) fn call(host: &Host, method: &str) -> Outcome {
    let now = now_ms();
    match method {
        "getEntitlementSnapshot" if !host.scenario().host.signed_in => Ok(json!({
            "generatedAt": now, "authenticated": false, "unavailableReason": "not_authenticated",
            "context": { "scope": "personal" }, "provider": null, "subscription": null, "quota": null,
        })),
        "getEntitlementSnapshot" => Ok(json!({
            "generatedAt": now, "authenticated": true, "context": { "scope": "personal" },
            "provider": { "id": "builtin:zai-coding-plan", "name": "Z.ai Coding Plan" },
            "subscription": { "details": [{ "productName": "Simulated plan" }] },
            "quota": { "level": "pro", "limits": [
                { "type": "TOKENS_LIMIT", "unit": 3, "number": 5, "percentage": 12, "nextResetTime": now + 3 * HOUR },
                { "type": "TOKENS_LIMIT", "unit": 6, "number": 1, "percentage": 34, "nextResetTime": now + 72 * HOUR },
                { "type": "TIME_LIMIT", "unit": 5, "number": 1, "usage": 1000, "currentValue": 20, "remaining": 980,
                  "percentage": 2, "nextResetTime": now + 500 * HOUR,
                  "usageDetails": [{ "modelCode": "search-prime", "usage": 20 }] },
            ] },
        })),
        "getCodingPlanResetStatus" => Ok(json!({
            "availableFiveHourResets": [{ "expireAt": now + 240 * HOUR }], "availableWeekResets": [],
        })),
        _ => Err(ServiceError::no_method(method)),
    }
}
