//! Zeroed memory on large pages, where the system has them.
//!
//! A gather reads rows in no order: with pages of 4 KiB there are more of them than a processor keeps
//! addresses for, with pages of 2 MiB hardly ever. (Measured: some hundredths of an epoch on a graph of
//! Reddit's shape, whose blocks fit the caches.)
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use memmap2::MmapMut;

use crate::error::{Error, Result};

/// A large page, on the processors that this runs on.
const LARGE_PAGE: usize = 2 << 20;

/// Memory that is its own.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
    from: Source,
}

#[derive(Debug)]
enum Source {
    Allocator(Layout),
    /// Unmapped when it is dropped.
    System {
        _map: MmapMut,
    },
}

// SAFETY: it owns the memory, as a `Box` of bytes does.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives out an address only.
unsafe impl Sync for Pages {}

impl Pages {
    /// The alignment of its start: a cache line, a register of AVX-512.
    pub const ALIGNMENT: usize = 64;
    /// From so many bytes on they lie on large pages; fewer would leave much of one empty.
    pub const LARGE: usize = 2 * LARGE_PAGE;

    /// `bytes` zeros.
    ///
    /// # Errors
    /// [`Error::Argument`] where there is not so much memory.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        let too_large = || Error::Argument {
            operation: "allocate",
            reason: format!("{bytes} bytes do not fit in memory"),
        };
        if bytes >= Self::LARGE {
            // Room to begin on a large page, wherever the system puts it.
            let length = bytes.checked_next_multiple_of(LARGE_PAGE).and_then(|n| n.checked_add(LARGE_PAGE));
            let mut map = MmapMut::map_anon(length.ok_or_else(too_large)?).map_err(|_| too_large())?;
            // A system without large pages, or where nobody may ask for them, has small ones.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            let before = map.as_ptr().align_offset(LARGE_PAGE);
            let inside = map.get_mut(before..).ok_or_else(too_large)?;
            let start = NonNull::from(inside).cast::<u8>();
            return Ok(Self { start, bytes, from: Source::System { _map: map } });
        }
        let layout = Layout::from_size_align(bytes.max(Self::ALIGNMENT), Self::ALIGNMENT);
        let layout = layout.map_err(|_| too_large())?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
        Ok(Self { start, bytes, from: Source::Allocator(layout) })
    }

    /// The first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Source::Allocator(layout) = self.from {
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_of_it_is_there_aligned_and_zero() {
        for bytes in
            [0, 1, 63, 4096, Pages::LARGE - 1, Pages::LARGE, LARGE_PAGE, LARGE_PAGE + 1, 5 * LARGE_PAGE - 3]
        {
            let pages = Pages::zeroed(bytes).unwrap();
            assert_eq!(pages.bytes(), bytes);
            assert_eq!(pages.start().as_ptr().align_offset(Pages::ALIGNMENT), 0);
            // SAFETY: `bytes` bytes of its own, which nobody else knows.
            let all = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), bytes) };
            assert!(all.iter().all(|&b| b == 0), "{bytes}");
            all.fill(1);
        }
    }

    #[test]
    fn too_much_is_refused() {
        for bytes in [usize::MAX, usize::MAX - LARGE_PAGE, isize::MAX as usize, 1 << 60] {
            assert!(Pages::zeroed(bytes).is_err(), "{bytes}");
        }
    }
}
