//! Things with a number that is used again once they are gone; the last one freed comes first, so
//! that the hot ones stay in the cache.

#[derive(Debug)]
pub(super) struct Slab<T> {
    things: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            things: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Puts `thing` in; where the place was used before, `again` may keep something of it.
    #[inline]
    pub(super) fn add(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = thing;
                place
            }
            None => {
                self.things.push(thing);
                (self.things.len() - 1) as u32
            }
        }
    }

    /// A place that was freed before, its former content still in it.
    #[inline]
    pub(super) fn reuse(&mut self) -> Option<u32> {
        self.free.pop()
    }

    #[inline]
    pub(super) fn free(&mut self, place: u32) {
        self.free.push(place);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.things[place as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.things[place as usize]
    }
}
