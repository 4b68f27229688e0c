//! Up to eight of anything, kept on the stack.

/// How many limits one key carries at most.
pub const MAX_LIMITS: usize = 8;

/// The slots are full: a ninth item was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// An ordered list of 0 to [`MAX_LIMITS`] items, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Slots<T> {
    items: [Option<T>; MAX_LIMITS],
    len: usize,
}

impl<T: Copy> Slots<T> {
    /// No items.
    pub fn new() -> Slots<T> {
        Slots {
            items: [None; MAX_LIMITS],
            len: 0,
        }
    }

    /// One item.
    pub fn one(item: T) -> Slots<T> {
        let mut slots = Slots::new();
        slots.items[0] = Some(item);
        slots.len = 1;
        slots
    }

    /// Adds an item at the end, and returns it where it is.
    ///
    /// # Errors
    ///
    /// [`Full`] if there are [`MAX_LIMITS`] already.
    pub fn push(&mut self, item: T) -> Result<&mut T, Full> {
        let slot = self.items.get_mut(self.len).ok_or(Full)?;
        self.len += 1;
        Ok(slot.insert(item))
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index).and_then(Option::as_ref)
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map_while(Option::as_ref)
    }

    /// The items in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().map_while(Option::as_mut)
    }
}

impl<T: Copy> Default for Slots<T> {
    fn default() -> Self {
        Slots::new()
    }
}
