//! A plain table: columns as wide as their content, no rules, numbers right-aligned.

use crate::style::{Style, Tone};

/// One cell.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    text: String,
    right: bool,
    tone: Option<Tone>,
    glued: bool,
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
        self.toned(Tone::Dim)
    }
    /// Painted in a tone.
    pub(super) fn toned(self, tone: Tone) -> Self {
        Self { tone: Some(tone), ..self }
    }
    /// One space after the cell before instead of two: it belongs to it.
    pub(super) fn glued(self) -> Self {
        Self { glued: true, ..self }
    }
    /// Columns on a terminal: no cell holds a wide or a combining character.
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Rows under a head.
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        let cells = head.iter().map(|h| Cell::right((*h).to_owned()).dim()).collect();
        Self { rows: vec![cells] }
    }
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        (0..columns)
            .map(|i| self.rows.iter().filter_map(|r| r.get(i)).map(Cell::width).max().unwrap_or(0))
            .collect()
    }
    /// Spaces before each column.
    fn gaps(&self) -> Vec<usize> {
        let glued = |i: usize| self.rows.iter().any(|r| r.get(i).is_some_and(|cell| cell.glued));
        (0..self.widths().len())
            .map(|i| {
                if i == 0 {
                    0
                } else if glued(i) {
                    1
                } else {
                    2
                }
            })
            .collect()
    }
    /// Columns that the widest line takes, without indentation.
    pub(super) fn width(&self) -> usize {
        self.widths().iter().sum::<usize>() + self.gaps().iter().sum::<usize>()
    }
    pub(super) fn render(&self, style: &Style, indent: &str) -> String {
        let (widths, gaps) = (self.widths(), self.gaps());
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::from(indent);
            for ((cell, width), gap) in row.iter().zip(&widths).zip(&gaps) {
                line.push_str(&" ".repeat(*gap));
                let pad = " ".repeat(width - cell.width());
                let text = match cell.tone {
                    Some(tone) if !cell.text.is_empty() => style.paint(tone, &cell.text),
                    _ => cell.text.clone(),
                };
                if cell.right {
                    line.push_str(&pad);
                    line.push_str(&text);
                } else {
                    line.push_str(&text);
                    line.push_str(&pad);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
