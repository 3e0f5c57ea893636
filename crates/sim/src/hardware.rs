//! Accelerators: peak figures from public data sheets, dense (no sparsity), for one device.

/// One accelerator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accelerator {
    /// Name in a target.
    pub name: &'static str,
    /// Dense BF16 tensor throughput, TFLOP/s.
    pub bf16_tflops: f64,
    /// Dense FP8 tensor throughput, TFLOP/s; `None`: weights in 8 bits are computed in BF16.
    pub fp8_tflops: Option<f64>,
    /// Memory bandwidth, GB/s (10⁹).
    pub memory_gb_s: f64,
    /// Memory, GB (10⁹).
    pub memory_gb: f64,
    /// To the other devices of the machine, each direction, GB/s.
    pub link_gb_s: f64,
    /// Start-up time of one all-reduce, microseconds. An assumption, not a data sheet figure: small
    /// messages cost about 10 µs over NVLink-class links and 25 µs over PCIe.
    pub link_latency_us: f64,
    /// Where the peak figures come from.
    pub source: &'static str,
}

/// All known accelerators.
pub const ACCELERATORS: &[Accelerator] = &[
    Accelerator {
        name: "a100",
        bf16_tflops: 312.0,
        fp8_tflops: None,
        memory_gb_s: 2039.0,
        memory_gb: 80.0,
        link_gb_s: 300.0,
        link_latency_us: 10.0,
        source: "NVIDIA A100 data sheet (SXM4 80 GB): BF16 312 TFLOPS, 2,039 GB/s, NVLink 600 GB/s both ways",
    },
    Accelerator {
        name: "h100",
        bf16_tflops: 989.4,
        fp8_tflops: Some(1978.9),
        memory_gb_s: 3350.0,
        memory_gb: 80.0,
        link_gb_s: 450.0,
        link_latency_us: 10.0,
        source: "NVIDIA H100 data sheet (SXM5): BF16 1,979 and FP8 3,958 TFLOPS with sparsity (half without), 3.35 TB/s, NVLink 900 GB/s both ways",
    },
    Accelerator {
        name: "h200",
        bf16_tflops: 989.4,
        fp8_tflops: Some(1978.9),
        memory_gb_s: 4800.0,
        memory_gb: 141.0,
        link_gb_s: 450.0,
        link_latency_us: 10.0,
        source: "NVIDIA H200 data sheet (SXM): compute as H100, 141 GB at 4.8 TB/s, NVLink 900 GB/s both ways",
    },
    Accelerator {
        name: "b200",
        bf16_tflops: 2250.0,
        fp8_tflops: Some(4500.0),
        memory_gb_s: 8000.0,
        memory_gb: 180.0,
        link_gb_s: 900.0,
        link_latency_us: 10.0,
        source: "NVIDIA DGX B200 data sheet, an eighth: FP8 72 PFLOPS with sparsity, 1,440 GB at 64 TB/s, NVLink 14.4 TB/s both ways",
    },
    Accelerator {
        name: "mi300x",
        bf16_tflops: 1307.4,
        fp8_tflops: Some(2614.9),
        memory_gb_s: 5300.0,
        memory_gb: 192.0,
        link_gb_s: 448.0,
        link_latency_us: 10.0,
        source: "AMD Instinct MI300X data sheet: BF16 1,307.4 and FP8 2,614.9 TFLOPS, 192 GB at 5.3 TB/s, 7 links of 128 GB/s both ways",
    },
    Accelerator {
        name: "l4",
        bf16_tflops: 121.0,
        fp8_tflops: Some(242.5),
        memory_gb_s: 300.0,
        memory_gb: 24.0,
        link_gb_s: 32.0,
        link_latency_us: 25.0,
        source: "NVIDIA L4 data sheet: BF16 242 and FP8 485 TFLOPS with sparsity (half without), 24 GB at 300 GB/s, PCIe Gen4 x16 64 GB/s both ways",
    },
    Accelerator {
        name: "l40s",
        bf16_tflops: 362.05,
        fp8_tflops: Some(733.0),
        memory_gb_s: 864.0,
        memory_gb: 48.0,
        link_gb_s: 32.0,
        link_latency_us: 25.0,
        source: "NVIDIA L40S data sheet: BF16 362.05 and FP8 733 TFLOPS, 48 GB at 864 GB/s, PCIe Gen4 x16 64 GB/s both ways",
    },
    Accelerator {
        name: "rtx4090",
        bf16_tflops: 165.2,
        fp8_tflops: Some(330.3),
        memory_gb_s: 1008.0,
        memory_gb: 24.0,
        link_gb_s: 32.0,
        link_latency_us: 25.0,
        source: "NVIDIA Ada GPU architecture white paper (RTX 4090, FP32 accumulate): BF16 165.2 and FP8 330.3 TFLOPS, 24 GB at 1,008 GB/s, PCIe Gen4 x16",
    },
];

/// The accelerator of that name; case, `-`, `_` and blanks do not matter.
pub fn accelerator(name: &str) -> Option<&'static Accelerator> {
    let wanted = crate::names::fold_name(name);
    ACCELERATORS.iter().find(|a| crate::names::fold_name(a.name) == wanted)
}
