//! From a picture to its lines.

use std::path::Path;

use crate::{
    Picture, Result,
    boxes::{self, Corners, Map},
    letters::Alphabet,
    model::{Model, load_runtime},
    order::{self, Place},
};

/// Longest side of a page that text is looked for in: letters of ten points of a page of A4 are 15 points high then.
/// The memory of the first network grows with the square: 1600 take 600 MB.
const LONGEST_LOOKED_AT: f32 = 1280.0;

/// Shorter sides are made longer: small letters are not seen.
const SHORTEST_LOOKED_AT: f32 = 736.0;

/// A picture that is longer than its other side by more than this is not made larger for the short one.
const MOST_ENLARGED: f32 = 4.0;

/// Height of a line as the networks were trained.
const LINE_HEIGHT: usize = 48;

/// Columns of the third network's output that are made in one go: a number for each of 18 710 letters in each.
const COLUMNS_AT_ONCE: usize = 400;

/// Points of a line for one column.
const POINTS_OF_COLUMN: usize = 8;

/// A longer line is pressed together.
const LONGEST_LINE: usize = COLUMNS_AT_ONCE * POINTS_OF_COLUMN;

/// Lines of which the network is less sure are left out.
const SURE: f32 = 0.5;

/// A page that is read with less is tried upside down as well: text that stands on its head is read with 0.6, and even
/// noisy text that does not with 0.9.
const UPRIGHT: f32 = 0.85;

/// A line of text in a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// Mean probability of its letters.
    pub sure: f32,
    /// Left, upper, right and lower side, as parts of the picture when it stands upright.
    pub place: [f32; 4],
}

/// What a picture says.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// In the order of reading; those that could not be read are left out.
    pub lines: Vec<Line>,
    /// Quarters against the clock by which the picture was turned.
    pub turned: u32,
    /// Width by height, when it stands upright.
    pub aspect: f32,
    /// Letters that seem to stand where none, or nothing but marks, could be read: by the length of such places.
    pub unread: f32,
}

impl Read {
    /// Mean sureness by letters; 0 without any.
    pub fn sure(&self) -> f32 {
        let (mut sum, mut all) = (0.0, 0.0);
        for line in &self.lines {
            let letters = line.text.chars().count() as f32;
            sum += line.sure * letters;
            all += letters;
        }
        if all > 0.0 { sum / all } else { 0.0 }
    }

    /// Where a line is in the picture as it was given, before it was turned: left, upper, right and lower side.
    pub fn place_as_given(&self, line: &Line) -> [f32; 4] {
        (0..self.turned).fold(line.place, |[left, top, right, bottom], _| {
            [1.0 - bottom, left, 1.0 - top, right]
        })
    }
}

/// The two networks.
pub struct Ocr {
    find: Model,
    read: Model,
    alphabet: Alphabet,
}

impl std::fmt::Debug for Ocr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ocr").field("letters", &self.alphabet.len()).finish_non_exhaustive()
    }
}

impl Ocr {
    /// Opens the networks in `models`, on the ONNX Runtime in `library`, with so many threads.
    ///
    /// # Errors
    /// When the library or a model can not be loaded, or the models are others.
    pub fn open(library: &Path, models: &Path, threads: usize) -> Result<Ocr> {
        let environment = load_runtime(library)?;
        let open = |name: &str| Model::open(models.join(name), &environment, threads);
        let read = open("PP-OCRv6_rec_small.onnx")?;
        let letters = read.note("character").ok_or_else(|| read.error("it names no letters"))?;
        Ok(Ocr { find: open("PP-OCRv6_det_small.onnx")?, alphabet: Alphabet::new(&letters), read })
    }

    /// Reads a picture.
    ///
    /// # Errors
    /// When a network does not compute what it should.
    pub fn read(&mut self, picture: &Picture) -> Result<Read> {
        let mut turned = 0;
        let mut owned: Option<Picture> = None;
        let mut boxes = self.find(picture)?;
        let tall = |it: &&Corners| {
            let (width, height) = boxes::extent(it);
            height > width * 1.5
        };
        // Single letters are as high as wide and say nothing; a line of a page on its side is high.
        let long: Vec<&Corners> =
            boxes.iter().filter(|it| boxes::sides(it).0 > boxes::sides(it).1 * 3.0).collect();
        if !long.is_empty() && long.iter().copied().filter(tall).count() * 2 > long.len() {
            turned = 1;
            let upright = picture.turned();
            boxes = self.find(&upright)?;
            owned = Some(upright);
        }
        let mut lines = self.lines(owned.as_ref().unwrap_or(picture), &boxes)?;
        if !boxes.is_empty() && sureness(&lines) < UPRIGHT {
            let upended = owned.as_ref().unwrap_or(picture).upended();
            let (width, height) = (upended.width as f32, upended.height as f32);
            let mut turned_boxes = boxes.clone();
            for corners in &mut turned_boxes {
                let [a, b, c, d] = corners.map(|[x, y]| [width - x, height - y]);
                *corners = [c, d, a, b];
            }
            let again = self.lines(&upended, &turned_boxes)?;
            if sureness(&again) > sureness(&lines) {
                turned += 2;
                (boxes, lines, owned) = (turned_boxes, again, Some(upended));
            }
        }
        let picture = owned.as_ref().unwrap_or(picture);
        let (width, height) = (picture.width as f32, picture.height as f32);
        let unread =
            boxes.iter().zip(&lines).filter(|it| !is_read(it.1)).map(|it| letters_in(it.0));
        let unread = unread.sum();
        let places: Vec<Place> = boxes.iter().map(place).collect();
        let ordered = order::of(&places).into_iter().filter_map(|index| {
            let (text, sure) = lines.get(index)?;
            let text = text.trim();
            let Place { left, top, right, bottom } = places[index];
            let place = [left / width, top / height, right / width, bottom / height];
            (*sure >= SURE && !text.is_empty()).then(|| Line {
                text: text.to_owned(),
                sure: *sure,
                place: place.map(|it| it.clamp(0.0, 1.0)),
            })
        });
        Ok(Read { lines: ordered.collect(), turned, aspect: width / height, unread })
    }

    /// Boxes around lines, in points of the picture.
    fn find(&mut self, picture: &Picture) -> Result<Vec<Corners>> {
        let (width, height) = (picture.width as f32, picture.height as f32);
        let (long, short) = (width.max(height), width.min(height));
        let mut scale = (SHORTEST_LOOKED_AT / short).clamp(1.0, MOST_ENLARGED);
        if long * scale > LONGEST_LOOKED_AT {
            scale = LONGEST_LOOKED_AT / long;
        }
        // The network halves five times.
        let side = |it: f32| ((it * scale / 32.0).round().max(1.0) as usize) * 32;
        let (columns, rows) = (side(width), side(height));
        let mut input = Vec::with_capacity(3 * columns * rows);
        picture.resized(columns, rows).planes(columns, &mut input);
        let boxes = self.find.run([1, 3, rows, columns], input, |shape, values| {
            let fits = shape == [1, 1, rows, columns] && values.len() == rows * columns;
            fits.then(|| boxes::find(&Map { width: columns, height: rows, values }))
        })?;
        let mut boxes = boxes.ok_or_else(|| self.find.error("it is another network"))?;
        let (across, down) = (width / columns as f32, height / rows as f32);
        for [x, y] in boxes.iter_mut().flatten() {
            *x = (*x * across).clamp(0.0, width - 1.0);
            *y = (*y * down).clamp(0.0, height - 1.0);
        }
        boxes.retain(|it| boxes::sides(it).1 > 3.0);
        Ok(boxes)
    }

    /// What the lines say and how sure that is, in the order of the boxes.
    fn lines(&mut self, picture: &Picture, boxes: &[Corners]) -> Result<Vec<(String, f32)>> {
        let mut lines: Vec<(usize, Picture)> =
            boxes.iter().map(|it| cutting(picture, it, LONGEST_LINE)).enumerate().collect();
        // Those of like length together: the shorter ones are filled up.
        lines.sort_by_key(|it| it.1.width);
        let mut said = vec![(String::new(), 0.0); boxes.len()];
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let columns = |count: usize| rest[count - 1].1.width.div_ceil(POINTS_OF_COLUMN) * count;
            let mut count = 1;
            while count < rest.len() && columns(count + 1) <= COLUMNS_AT_ONCE {
                count += 1;
            }
            let (batch, others) = rest.split_at(count);
            rest = others;
            // The network was trained with lines of no less.
            let width = batch[count - 1].1.width.max(320);
            let mut input = Vec::with_capacity(count * 3 * LINE_HEIGHT * width);
            for (_, line) in batch {
                line.planes(width, &mut input);
            }
            let alphabet = &self.alphabet;
            let shape = [count, 3, LINE_HEIGHT, width];
            let texts = self.read.run(shape, input, |shape, values| {
                let fits = matches!(shape, [lines, _, letters] if *lines == count && *letters == alphabet.len());
                fits.then(|| {
                    let each = values.len() / count;
                    values.chunks_exact(each.max(1)).map(|it| alphabet.read(it)).collect::<Vec<_>>()
                })
            })?;
            let texts = texts.ok_or_else(|| self.read.error("it is another network"))?;
            for ((index, _), text) in batch.iter().zip(texts) {
                said[*index] = text;
            }
        }
        Ok(said)
    }
}

/// Mean sureness of lines by their letters.
fn sureness(lines: &[(String, f32)]) -> f32 {
    let letters = |it: &(String, f32)| it.0.chars().count() as f32;
    let all: f32 = lines.iter().map(letters).sum();
    if all > 0.0 { lines.iter().map(|it| it.1 * letters(it)).sum::<f32>() / all } else { 0.0 }
}

/// Whether something is read of a line, and surely, that is more than its marks.
fn is_read((text, sure): &(String, f32)) -> bool {
    *sure >= SURE && text.chars().any(char::is_alphanumeric)
}

/// Letters that fit into a box: they are half as wide as it is high.
fn letters_in(corners: &Corners) -> f32 {
    let (long, short) = boxes::sides(corners);
    2.0 * long / short.max(1.0)
}

/// A line, straightened, as high as the networks want it.
fn cutting(picture: &Picture, corners: &Corners, longest: usize) -> Picture {
    let mut line = picture.cut(corners);
    // Writing from above, or a line of a page that lies on its side.
    if line.height * 2 >= line.width * 3 {
        line = line.turned();
    }
    let width = (LINE_HEIGHT * line.width).div_ceil(line.height).clamp(1, longest);
    line.resized(width, LINE_HEIGHT)
}

fn place(corners: &Corners) -> Place {
    let low = |axis: usize| corners.iter().map(|it| it[axis]).fold(f32::INFINITY, f32::min);
    let high = |axis: usize| corners.iter().map(|it| it[axis]).fold(f32::NEG_INFINITY, f32::max);
    Place { left: low(0), top: low(1), right: high(0), bottom: high(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_alone_are_not_read_and_a_place_has_the_letters_that_fit() {
        let line = |text: &str, sure: f32| (text.to_owned(), sure);
        assert!(is_read(&line("a.", 0.5)) && is_read(&line("船", 0.9)));
        assert!(
            !is_read(&line(",", 0.95)) && !is_read(&line("", 0.0)) && !is_read(&line("a", 0.4))
        );
        let corners = [[10.0, 10.0], [110.0, 10.0], [110.0, 30.0], [10.0, 30.0]];
        assert!((letters_in(&corners) - 10.0).abs() < 1e-4);
        assert!(letters_in(&[[1.0, 1.0]; 4]).is_finite());
    }

    #[test]
    fn places_are_told_as_the_picture_was_given() {
        let line = Line { text: "a".to_owned(), sure: 1.0, place: [0.1, 0.2, 0.4, 0.3] };
        let place = |turned: u32| {
            let read = Read { lines: vec![line.clone()], turned, aspect: 1.0, unread: 0.0 };
            read.place_as_given(&line).map(|it| (it * 10.0).round() as u32)
        };
        assert_eq!(place(0), [1, 2, 4, 3]);
        // Turned by a quarter against the clock, its upper edge was the right one.
        assert_eq!(place(1), [7, 1, 8, 4]);
        assert_eq!(place(2), [6, 7, 9, 8]);
        assert_eq!(place(3), [2, 6, 3, 9]);
    }
}
