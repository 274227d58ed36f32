//! Drawing a layout: position against document number.

use std::collections::HashSet;

use super::figure::fragmentation;
use crate::chart::escape;

const TERMINAL_COLUMNS: usize = 72;
const TERMINAL_LINES: usize = 20;
const WIDTH: usize = 640;
const HEIGHT: usize = 400;
const MARGIN: usize = 48;
/// Points drawn of a panel at most: one for each dot of its width and height would be enough.
const POINTS_MAX: usize = 60_000;

/// One layout of a picture.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) positions: Vec<u64>,
}

/// Braille cells have two columns and four lines of dots.
pub(super) fn terminal(positions: &[u64]) -> String {
    const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    let (columns, lines) = (TERMINAL_COLUMNS * 2, TERMINAL_LINES * 4);
    let mut cells = vec![0_u32; TERMINAL_COLUMNS * TERMINAL_LINES];
    for (x, y) in points(positions, columns, lines) {
        if let (Some(cell), Some(row)) = (cells.get_mut(y / 4 * TERMINAL_COLUMNS + x / 2), DOTS.get(y % 4)) {
            *cell |= row[x % 2];
        }
    }
    let line = |row: &[u32]| row.iter().filter_map(|dots| char::from_u32(0x2800 + dots)).collect::<String>() + "\n";
    cells.chunks(TERMINAL_COLUMNS).map(line).collect()
}

/// Dots of a field, the origin below on the left.
fn points(positions: &[u64], width: usize, height: usize) -> impl Iterator<Item = (usize, usize)> {
    let low = positions.iter().min().copied().unwrap_or(0);
    let span = (positions.iter().max().copied().unwrap_or(0) - low).max(1) as f64;
    let count = positions.len().max(1) as f64;
    positions.iter().enumerate().map(move |(number, position)| {
        let x = (number as f64 / count * width as f64) as usize;
        let y = ((position - low) as f64 / span * (height - 1) as f64) as usize;
        (x.min(width - 1), height - 1 - y)
    })
}

/// Panels side by side.
pub(crate) fn svg(panels: &[Panel]) -> String {
    let (width, height) = ((WIDTH + 2 * MARGIN) * panels.len(), HEIGHT + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (number, panel) in panels.iter().enumerate() {
        let left = number * (WIDTH + 2 * MARGIN) + MARGIN;
        let title = escape(&panel.title);
        let figure = fragmentation(&panel.positions).map_or("none".to_owned(), |figure| format!("{figure:.2}"));
        out += &format!(
            "<text x=\"{left}\" y=\"30\">{title}: fragmentation {figure}</text>\n\
             <rect x=\"{left}\" y=\"{MARGIN}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#999\"/>\n\
             <text x=\"{left}\" y=\"{}\">document number →</text>\n<path fill=\"none\" stroke=\"#1565c0\" stroke-width=\"1.5\" stroke-linecap=\"round\" d=\"",
            MARGIN + HEIGHT + 24
        );
        let step = panel.positions.len().div_ceil(POINTS_MAX).max(1);
        let thinned: Vec<u64> = panel.positions.iter().copied().step_by(step).collect();
        let mut drawn = HashSet::new();
        for point in points(&thinned, WIDTH, HEIGHT) {
            if drawn.insert(point) {
                out += &format!("M{} {}h0", left + point.0, MARGIN + point.1);
            }
        }
        out += "\"/>\n";
    }
    out + "</svg>\n"
}

/// One panel in black and white.
pub(super) fn png(panel: &Panel) -> Vec<u8> {
    let mut rows = vec![vec![0_u8; WIDTH + 1]; HEIGHT];
    for row in &mut rows {
        row.iter_mut().skip(1).for_each(|dot| *dot = 255);
    }
    for (x, y) in points(&panel.positions, WIDTH, HEIGHT) {
        if let Some(dot) = rows.get_mut(y).and_then(|row| row.get_mut(x + 1)) {
            *dot = 0;
        }
    }
    let mut header = Vec::new();
    header.extend_from_slice(&(WIDTH as u32).to_be_bytes());
    header.extend_from_slice(&(HEIGHT as u32).to_be_bytes());
    // 8 bits of grey.
    header.extend_from_slice(&[8, 0, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    push_chunk(&mut out, b"IHDR", &header);
    push_chunk(&mut out, b"IDAT", &stored(&rows.concat()));
    push_chunk(&mut out, b"IEND", &[]);
    out
}

fn push_chunk(out: &mut Vec<u8>, kind: &[u8; 4], bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    let checked = out.len();
    out.extend_from_slice(kind);
    out.extend_from_slice(bytes);
    let checksum = crc32(&out[checked..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// A zlib stream that does not compress.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&(block.len() as u16).to_le_bytes());
        out.extend_from_slice(&(!(block.len() as u16)).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    out.extend_from_slice(&(high << 16 | low).to_be_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_the_shape_of_the_layout() {
        let rising: Vec<u64> = (0..500).map(|number| number * 100).collect();
        let drawn = terminal(&rising);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), TERMINAL_LINES);
        assert!(lines[0].starts_with('\u{2800}') && !lines[0].ends_with('\u{2800}'), "high on the right");
        assert!(lines[TERMINAL_LINES - 1].ends_with('\u{2800}') && !lines[TERMINAL_LINES - 1].starts_with('\u{2800}'));
        let panel = || Panel { title: "a < b".to_owned(), positions: rising.clone() };
        assert!(svg(&[panel(), panel()]).contains("a &lt; b: fragmentation 1.00"));
    }

    #[test]
    fn the_png_is_whole() {
        let png = png(&Panel { title: String::new(), positions: vec![1, 2, 3] });
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
        assert!(
            png.starts_with(b"\x89PNG\r\n\x1a\n")
                && png.ends_with(&[0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82])
        );
    }
}
