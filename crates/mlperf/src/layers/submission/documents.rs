//! The papers of a submission: the description of the system and `measurements.json`.

use serde_json::Value;

use super::super::declared::{Availability, Declared, Division};
use super::super::{Check, Findings};
use super::Rules;

/// Fields of a system's description that must be there; see the source of a round.
const SYSTEM: [&str; 35] = [
    "division",
    "submitter",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_memory_capacity",
    "host_storage_capacity",
    "host_storage_type",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "framework",
    "operating_system",
    "system_type",
    "other_software_stack",
    "host_processor_frequency",
    "host_processor_caches",
    "host_memory_configuration",
    "host_processor_interconnect",
    "host_networking",
    "host_networking_topology",
    "accelerator_frequency",
    "accelerator_host_interconnect",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "accelerator_memory_configuration",
    "accelerator_on-chip_memories",
    "cooling",
    "hw_notes",
    "sw_notes",
    "host_network_card_count",
    "system_type_detail",
];

/// Of these, fields that must not be empty.
const TOLD: [&str; 26] = [
    "division",
    "submitter",
    "system_type",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_memory_capacity",
    "host_memory_configuration",
    "host_storage_capacity",
    "host_storage_type",
    "host_networking",
    "host_network_card_count",
    "host_networking_topology",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "accelerator_host_interconnect",
    "accelerator_memory_configuration",
    "accelerator_interconnect",
    "cooling",
    "framework",
    "operating_system",
    "other_software_stack",
];

/// More of them in the network division.
const NETWORK: [&str; 13] = [
    "is_network",
    "network_type",
    "network_media",
    "network_rate",
    "nic_loadgen",
    "number_nic_loadgen",
    "net_software_stack_loadgen",
    "network_protocol",
    "number_connections",
    "nic_sut",
    "number_nic_sut",
    "net_software_stack_sut",
    "network_topology",
];

/// Fields of `measurements.json`; none may be empty.
const MEASUREMENTS: [&str; 5] = [
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
];

pub(super) fn system_and_measurements(declared: &Declared, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    match &declared.system {
        None => found.unknown("no description of the system is given"),
        Some(system) => of_system(&mut found, system, declared),
    }
    match &declared.measurements {
        None => found.unknown("no measurements.json is given"),
        Some(measurements) => {
            let empty: Vec<&str> =
                MEASUREMENTS.into_iter().filter(|name| is_empty(&measurements[*name])).collect();
            found.must(Some(empty.is_empty()), told("measurements.json", &empty));
        }
    }
    found.check("system_and_measurements", rules.source())
}

fn of_system(found: &mut Findings, system: &Value, declared: &Declared) {
    let network = declared.division == Some(Division::Network);
    let wanted = SYSTEM.into_iter().chain(NETWORK.into_iter().filter(|_| network));
    let missing: Vec<&str> = wanted.filter(|name| system[*name].is_null()).collect();
    found.must(Some(missing.is_empty()), told("the system's description", &missing));
    let present = |name: &&str| !system[*name].is_null();
    let empty: Vec<&str> = TOLD.into_iter().filter(present).filter(|name| is_empty(&system[*name])).collect();
    found.must(Some(empty.is_empty()), told("what the system's description says", &empty));
    let kind = system["system_type"].as_str().unwrap_or_default();
    let kinds = ["datacenter", "edge", "datacenter,edge", "edge,datacenter"];
    found.must(Some(kinds.contains(&kind)), format!("system_type `{kind}`"));
    let is_network = system["is_network"].as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"));
    if declared.division != Some(Division::Open) && declared.division.is_some() {
        found.must(Some(is_network == network), format!("is_network {is_network} in this division"));
    }
    let division = declared.division.map(|division| match division {
        Division::Closed => "closed",
        Division::Network => "network",
        Division::Open => "open",
    });
    let status = declared.availability.map(|availability| match availability {
        Availability::Available => "available",
        Availability::Preview => "preview",
        Availability::Rdi => "rdi",
    });
    for (name, wanted) in [("division", division), ("status", status)] {
        let said = system[name].as_str().unwrap_or_default();
        let Some(wanted) = wanted else { continue };
        found.must(Some(said.eq_ignore_ascii_case(wanted)), format!("{name} `{said}`, declared {wanted}"));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

fn told(what: &str, missing: &[&str]) -> String {
    if missing.is_empty() {
        format!("{what}: nothing is missing")
    } else {
        format!("{what}: missing or empty: {}", missing.join(", "))
    }
}
