//! Pictures: decoded within limits, made smaller, turned, cut out.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder as _, ImageError, ImageReader, Limits};

use crate::{Error, Result};

/// Most points of a picture that is decoded. Cameras of phones make 12 to 50 million; decoded they take three bytes
/// each, twice for a moment.
pub const MOST_POINTS: u64 = 50_000_000;

/// Most bytes that a decoder may take.
const MOST_BYTES: u64 = 256 << 20;

/// Longest side that is kept: letters of a page are 40 points high then.
const LONGEST_SIDE: u32 = 4000;

/// A picture in red, green and blue, rows from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) rgb: Vec<u8>,
}

impl Picture {
    /// Of points that are there already; `None` when there are not three bytes for each.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Picture> {
        let (width, height) = (width as usize, height as usize);
        let fits =
            width > 0 && height > 0 && width.checked_mul(height)?.checked_mul(3)? == rgb.len();
        fits.then_some(Picture { width, height, rgb })
    }

    /// Decodes a file, turns it as its camera says, and makes it smaller where it is larger than any text needs.
    ///
    /// # Errors
    /// When it is damaged, in a format that is not read, or larger than [`MOST_POINTS`]. Its size is looked at before
    /// anything is decoded.
    pub fn decode(bytes: &[u8]) -> Result<Picture> {
        let broken = |error: ImageError| match error {
            ImageError::Unsupported(_) => Error::Format,
            other => Error::Damaged(other.to_string()),
        };
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(|error| Error::Damaged(error.to_string()))?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_BYTES);
        reader.limits(limits);
        let mut decoder = reader.into_decoder().map_err(broken)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MOST_POINTS {
            return Err(Error::TooLarge { width, height });
        }
        let orientation = decoder.orientation().ok();
        let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
        if width.max(height) > LONGEST_SIDE {
            picture = picture.thumbnail(LONGEST_SIDE, LONGEST_SIDE);
        }
        if let Some(orientation) = orientation {
            picture.apply_orientation(orientation);
        }
        // What is not covered is white paper and not black.
        let rgb = if picture.color().has_alpha() {
            let rgba = picture.into_rgba8();
            let mut flat = image::RgbImage::new(rgba.width(), rgba.height());
            for (to, from) in flat.pixels_mut().zip(rgba.pixels()) {
                let [red, green, blue, alpha] = from.0;
                let over = |it: u8| {
                    ((u32::from(it) * u32::from(alpha) + 255 * (255 - u32::from(alpha))) / 255)
                        as u8
                };
                to.0 = [over(red), over(green), over(blue)];
            }
            flat
        } else {
            picture.into_rgb8()
        };
        let (width, height) = rgb.dimensions();
        Picture::new(width, height, rgb.into_raw())
            .ok_or_else(|| Error::Damaged("it has no points".to_owned()))
    }

    /// Points in a row, and rows, of a file that is not decoded; `None` where it is none that [`decode`](Self::decode)
    /// knows.
    pub fn size_of(bytes: &[u8]) -> Option<(u32, u32)> {
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
        reader.into_dimensions().ok()
    }

    /// Points in a row, and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    fn point(&self, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.width + x) * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// The color at a place between points, by the four around it; outside the nearest of the edge.
    fn between(&self, x: f32, y: f32) -> [f32; 3] {
        let (x, y) =
            (x.clamp(0.0, (self.width - 1) as f32), y.clamp(0.0, (self.height - 1) as f32));
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (dx, dy) = (x - left as f32, y - top as f32);
        let corners = [
            (self.point(left, top), (1.0 - dx) * (1.0 - dy)),
            (self.point(right, top), dx * (1.0 - dy)),
            (self.point(left, bottom), (1.0 - dx) * dy),
            (self.point(right, bottom), dx * dy),
        ];
        let mut color = [0.0; 3];
        for (corner, weight) in corners {
            for (sum, value) in color.iter_mut().zip(corner) {
                *sum += f32::from(value) * weight;
            }
        }
        color
    }

    /// Made smaller or larger, each point by the four around its center.
    pub(crate) fn resized(&self, width: usize, height: usize) -> Picture {
        if (width, height) == (self.width, self.height) {
            return self.clone();
        }
        // Far smaller in one step would pass over most points: by halves first.
        if self.width >= width * 2 && self.height >= height * 2 {
            return self.halved().resized(width, height);
        }
        let (across, down) = (self.width as f32 / width as f32, self.height as f32 / height as f32);
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let color =
                    self.between((x as f32 + 0.5) * across - 0.5, (y as f32 + 0.5) * down - 0.5);
                rgb.extend(color.map(|it| it.round() as u8));
            }
        }
        Picture { width, height, rgb }
    }

    fn halved(&self) -> Picture {
        let (width, height) = (self.width / 2, self.height / 2);
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                for channel in 0..3 {
                    let value = |dx: usize, dy: usize| {
                        u32::from(self.rgb[((y * 2 + dy) * self.width + x * 2 + dx) * 3 + channel])
                    };
                    rgb.push(
                        ((value(0, 0) + value(1, 0) + value(0, 1) + value(1, 1) + 2) / 4) as u8,
                    );
                }
            }
        }
        Picture { width, height, rgb }
    }

    /// As a file in the simplest format that other programs read (PNM, `P6`).
    pub(crate) fn as_pnm(&self) -> Vec<u8> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend_from_slice(&self.rgb);
        bytes
    }

    /// Turned by a quarter against the clock.
    pub(crate) fn turned(&self) -> Picture {
        let mut rgb = Vec::with_capacity(self.rgb.len());
        for x in (0..self.width).rev() {
            for y in 0..self.height {
                rgb.extend(self.point(x, y));
            }
        }
        Picture { width: self.height, height: self.width, rgb }
    }

    /// Turned by half.
    pub(crate) fn upended(&self) -> Picture {
        let mut rgb = Vec::with_capacity(self.rgb.len());
        for at in (0..self.width * self.height).rev() {
            rgb.extend_from_slice(&self.rgb[at * 3..at * 3 + 3]);
        }
        Picture { width: self.width, height: self.height, rgb }
    }

    /// What lies between four corners (left above, right above, right below, left below), straightened.
    pub(crate) fn cut(&self, corners: &[[f32; 2]; 4]) -> Picture {
        let length = |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
        let [left_top, right_top, right_bottom, left_bottom] = *corners;
        let side = |one: f32, other: f32| (one.max(other) as usize).max(1);
        let width = side(length(left_top, right_top), length(left_bottom, right_bottom));
        let height = side(length(left_top, left_bottom), length(right_top, right_bottom));
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            let down = y as f32 / height as f32;
            for x in 0..width {
                let across = x as f32 / width as f32;
                let place = |axis: usize| {
                    let above = left_top[axis] + (right_top[axis] - left_top[axis]) * across;
                    let below =
                        left_bottom[axis] + (right_bottom[axis] - left_bottom[axis]) * across;
                    above + (below - above) * down
                };
                rgb.extend(self.between(place(0), place(1)).map(|it| it.round() as u8));
            }
        }
        Picture { width, height, rgb }
    }

    /// As a network wants it: blue, green and red one after the other, from -1 to 1, in rows of `width`, zero beyond
    /// what is there.
    pub(crate) fn planes(&self, width: usize, to: &mut Vec<f32>) {
        for channel in [2, 1, 0] {
            for y in 0..self.height {
                let row = (0..self.width.min(width))
                    .map(|x| f32::from(self.rgb[(y * self.width + x) * 3 + channel]) / 127.5 - 1.0);
                to.extend(row);
                to.extend(std::iter::repeat_n(0.0, width.saturating_sub(self.width)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32) -> Picture {
        let rgb = (0..width * height).flat_map(|it| [it as u8, 0, 255]).collect();
        Picture::new(width, height, rgb).expect("three bytes a point")
    }

    #[test]
    fn four_quarters_are_a_whole_turn() {
        let one = picture(3, 2);
        assert_eq!(one.turned().turned(), one.upended());
        assert_eq!(one.turned().turned().turned().turned(), one);
        // The right edge is above.
        assert_eq!(one.turned().point(0, 0)[0], 2);
        assert!(
            Picture::new(2, 2, vec![0; 11]).is_none() && Picture::new(0, 2, Vec::new()).is_none()
        );
    }

    #[test]
    fn a_cutting_of_all_is_all() {
        let one = picture(6, 4);
        let all = one.cut(&[[0.0, 0.0], [6.0, 0.0], [6.0, 4.0], [0.0, 4.0]]);
        assert_eq!(all, one);
        assert_eq!(one.resized(6, 4), one);
        assert_eq!(one.resized(3, 2).size(), (3, 2));
        let mut planes = Vec::new();
        one.planes(8, &mut planes);
        assert_eq!((planes.len(), planes[0], planes[7]), (3 * 4 * 8, 1.0, 0.0));
    }

    #[test]
    fn hostile_pictures_are_refused() {
        for bytes in
            [&b""[..], b"no picture at all", b"\x89PNG\r\n\x1a\n", b"\xFF\xD8\xFF\xE0\x00\x10JFIF"]
        {
            assert!(Picture::decode(bytes).is_err());
        }
        // A header that promises 60 000 × 60 000 points, and has none.
        let mut bitmap = b"BM".to_vec();
        bitmap.extend([0; 8]);
        bitmap.extend(54_u32.to_le_bytes());
        bitmap.extend(40_u32.to_le_bytes());
        bitmap.extend(60_000_i32.to_le_bytes());
        bitmap.extend(60_000_i32.to_le_bytes());
        bitmap.extend([1, 0, 24, 0]);
        bitmap.extend([0; 24]);
        assert!(matches!(
            Picture::decode(&bitmap),
            Err(Error::TooLarge { .. } | Error::Damaged(_))
        ));
    }
}
