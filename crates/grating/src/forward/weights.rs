//! A layer's weights, waited for when they are needed: until then there is other work.

use std::time::Duration;

use riddle_offload::{LayerView, LayerWindow};

use crate::Result;

/// The weights of a layer that has been asked for.
pub(super) struct Weights<'a> {
    layer: usize,
    /// Until they are there.
    window: Option<&'a mut LayerWindow>,
    view: Option<LayerView<'a>>,
}

impl<'a> Weights<'a> {
    /// Has the window read them. In the middle of a request it was told so long ago; of a request's first layer
    /// nobody has told it, after one that ended elsewhere.
    pub(super) fn ask(window: &'a mut LayerWindow, layer: usize) -> Result<Weights<'a>> {
        if layer == 0 {
            window.prefetch()?;
        }
        Ok(Weights { layer, window: Some(window), view: None })
    }

    /// Waits for them, once.
    pub(super) fn get(&mut self) -> Result<&[u8]> {
        if let Some(window) = self.window.take() {
            self.view = Some(window.advance_to(self.layer)?);
        }
        let view =
            self.view.as_ref().expect("a window that failed has failed the request: this is a bug");
        Ok(view.weights)
    }

    /// Bytes read for them, and how long they were waited for.
    pub(super) fn cost(&self) -> (u64, Duration) {
        self.view.as_ref().map_or((0, Duration::ZERO), |it| (it.bytes_read, it.io_wait))
    }
}
