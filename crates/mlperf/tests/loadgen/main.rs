//! Held against the real LoadGen 6.0.17.

mod early_stopping;
mod layers;
mod live;
mod logs;
mod oracle;
mod schedules;
mod settings;
