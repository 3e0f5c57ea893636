//! The pages that need no engine: models, health, version, metrics.

use serde_json::json;

use super::server::Server;
use crate::engine::BLOCK_TOKENS;

impl Server {
    /// Endpoints without a body.
    pub(super) fn page(&self, method: &str, path: &str) -> (u16, &'static str, Vec<u8>) {
        let json_type = "application/json";
        match (method, path) {
            ("GET", "/health" | "/ping") => (200, "text/plain", Vec::new()),
            ("GET", "/version") => (
                200,
                json_type,
                json!({"version": concat!("sim-", env!("CARGO_PKG_VERSION"))}).to_string().into(),
            ),
            ("GET", "/v1/models") => {
                let model = json!({
                    "id": self.config.model, "object": "model", "created": self.created,
                    "owned_by": "inferometer-sim", "root": self.config.model, "parent": null,
                    "max_model_len": self.config.context,
                });
                (200, json_type, json!({"object": "list", "data": [model]}).to_string().into())
            }
            ("GET", "/metrics") => {
                let page = self.metrics.page(&self.config.model, &self.engine.gauges(), BLOCK_TOKENS);
                (200, "text/plain; version=0.0.4; charset=utf-8", page.into())
            }
            (
                _,
                "/health"
                | "/ping"
                | "/version"
                | "/v1/models"
                | "/metrics"
                | "/v1/chat/completions"
                | "/v1/completions"
                | "/tokenize",
            ) => (405, json_type, br#"{"detail":"Method Not Allowed"}"#.to_vec()),
            _ => (404, json_type, br#"{"detail":"Not Found"}"#.to_vec()),
        }
    }
}
