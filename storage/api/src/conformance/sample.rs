//! Seeded random blocks, and the model they are compared with: the list of what was appended.

use bytes::Bytes;

use super::case::{Stop, ensure};
use crate::{Block, BlockFlags, Claim, Lsn, Pos, ShardId, ShardStore, StoredBlock};

/// A small seeded generator (splitmix64).
#[derive(Debug, Clone)]
pub struct SampleRng(pub u64);

impl SampleRng {
    /// Next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Bytes {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.bits().to_le_bytes());
        }
        out.truncate(len);
        Bytes::from(out)
    }
}

/// Appends blocks under one claim and remembers them.
pub struct Sample {
    /// Source of sizes and bytes.
    pub rng: SampleRng,
    /// What was appended: position and block, in order.
    pub blocks: Vec<(Pos, Block)>,
    next: Lsn,
    time_ms: u64,
}

impl Sample {
    /// Nothing appended yet; the first block starts at `next`.
    #[must_use]
    pub fn new(seed: u64, next: Lsn) -> Self {
        Self { rng: SampleRng(seed), blocks: Vec::new(), next, time_ms: 1_700_000_000_000 }
    }

    /// A block with up to `bytes_max` random bytes in up to four chunks.
    pub fn block(&mut self, bytes_max: usize, sync: bool) -> Block {
        let len = self.rng.below(bytes_max as u64 + 1) as usize;
        let mut chunks = Vec::new();
        let mut left = len;
        while left > 0 {
            let chunk = if chunks.len() == 3 { left } else { 1 + self.rng.below(left as u64) as usize };
            chunks.push(self.rng.bytes(chunk));
            left -= chunk;
        }
        self.block_of(chunks, sync)
    }

    /// A block with these chunks. It starts at the next LSN; only `append` moves that on.
    pub fn block_of(&mut self, records: Vec<Bytes>, sync: bool) -> Block {
        let count = 1 + self.rng.below(4) as u32;
        self.time_ms += self.rng.below(3);
        Block { first: self.next, count, time_ms: self.time_ms, records, sync, flags: BlockFlags::default() }
    }

    /// Appends `block` and remembers it.
    pub fn append(&mut self, store: &dyn ShardStore, claim: &Claim, block: Block) -> Result<Pos, Stop> {
        let pos = store.append(claim, block.clone())?;
        if let Some((last, _)) = self.blocks.last() {
            ensure!(pos > *last, "position {pos} after {last}");
        }
        self.next = Lsn(block.last().0 + 1);
        self.blocks.push((pos, block));
        Ok(pos)
    }

    /// Appends `count` blocks of up to `bytes_max` bytes.
    pub fn append_many(
        &mut self,
        store: &dyn ShardStore,
        claim: &Claim,
        count: usize,
        bytes_max: usize,
        sync: bool,
    ) -> Result<(), Stop> {
        for _ in 0..count {
            let block = self.block(bytes_max, sync);
            self.append(store, claim, block)?;
        }
        Ok(())
    }

    /// Last LSN appended.
    #[must_use]
    pub fn last(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    /// Forgets the blocks above the first `count`, as a crash does.
    pub fn forget_after(&mut self, count: usize) {
        if let Some((_, lost)) = self.blocks.get(count) {
            self.next = lost.first;
        }
        self.blocks.truncate(count);
    }

    /// Reads the log from `from` on in steps of `bytes_max` and fails unless it is exactly the remembered
    /// blocks from index `skip` on.
    pub fn check(
        &self,
        store: &dyn ShardStore,
        from: Pos,
        skip: usize,
        bytes_max: usize,
    ) -> Result<(), Stop> {
        let found = read_all(store, from, bytes_max)?;
        let expected = &self.blocks[skip..];
        for (index, (stored, (pos, block))) in found.iter().zip(expected).enumerate() {
            same(stored, *pos, block).map_err(|why| Stop::Failed(format!("block {index}: {why}")))?;
        }
        ensure!(found.len() == expected.len(), "{} blocks read, expected {}", found.len(), expected.len());
        Ok(())
    }
}

/// The whole log from `from` on.
pub(crate) fn read_all(
    store: &dyn ShardStore,
    mut from: Pos,
    bytes_max: usize,
) -> Result<Vec<StoredBlock>, Stop> {
    let mut all: Vec<StoredBlock> = Vec::new();
    loop {
        let some = store.read(ShardId(0), from, bytes_max)?;
        let Some(last) = some.last() else { return Ok(all) };
        let next = store.next_pos(ShardId(0), last.pos)?;
        ensure!(next > last.pos, "next_pos of {} is {next}", last.pos);
        from = next;
        all.extend(some);
    }
}

fn same(stored: &StoredBlock, pos: Pos, block: &Block) -> Result<(), String> {
    if stored.pos != pos {
        return Err(format!("is at {}, expected {pos}", stored.pos));
    }
    if (stored.first, stored.count, stored.time_ms, stored.flags)
        != (block.first, block.count, block.time_ms, block.flags)
    {
        return Err(format!("header is {stored:?}, expected LSN {}", block.first));
    }
    let expected: Vec<u8> = block.records.iter().flat_map(|chunk| chunk.iter().copied()).collect();
    if stored.records != expected {
        return Err(format!("{} bytes differ from the {} appended", stored.records.len(), expected.len()));
    }
    Ok(())
}
