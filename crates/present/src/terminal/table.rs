//! A plain table: columns as wide as their content, no rules, numbers right-aligned.

use crate::style::{Style, Tone};

/// One cell.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    text: String,
    right: bool,
    dim: bool,
}

impl Cell {
    pub(super) fn empty() -> Self {
        Self::default()
    }
    pub(super) fn left(text: String) -> Self {
        Self { text, ..Self::default() }
    }
    pub(super) fn right(text: String) -> Self {
        Self { text, right: true, ..Self::default() }
    }
    pub(super) fn dim(self) -> Self {
        Self { dim: true, ..self }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
    /// Columns on a terminal; footnote marks and dashes are one column each.
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Rows under a head.
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Self {
        let cells = head.into_iter().map(|h| Cell::right(h.to_owned()).dim()).collect();
        Self { rows: vec![cells] }
    }
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }
    pub(super) fn render(&self, style: &Style, indent: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|i| self.rows.iter().filter_map(|r| r.get(i)).map(Cell::width).max().unwrap_or(0))
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::from(indent);
            for (cell, width) in row.iter().zip(&widths) {
                let pad = " ".repeat(width - cell.width());
                let text = if cell.dim && !cell.text.is_empty() {
                    style.paint(Tone::Dim, &cell.text)
                } else {
                    cell.text.clone()
                };
                if cell.right {
                    line.push_str(&pad);
                    line.push_str(&text);
                } else {
                    line.push_str(&text);
                    line.push_str(&pad);
                }
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
