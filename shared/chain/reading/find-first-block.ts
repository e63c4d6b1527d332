interface BlockTimes {
  getBlock(at: { blockNumber: bigint }): Promise<{ readonly timestamp: bigint }>
}

/** Of Base. Where blocks take longer or shorter, the search only needs more calls. */
const BLOCK_SECONDS = 2n

/**
 * Returns the first block at or after `time` (Unix seconds), or one past the head when there is none yet. Looks around
 * the block that a constant block time suggests, so that a few RPC calls suffice, and bisects elsewhere. Blocks before
 * `lowest` are not considered: it is returned for any earlier time.
 */
export async function findFirstBlock(
  client: BlockTimes,
  time: bigint,
  head: bigint,
  lowest: bigint = 0n,
): Promise<bigint> {
  const isBefore = async (blockNumber: bigint) => (await client.getBlock({ blockNumber })).timestamp < time
  const { timestamp: headTime } = await client.getBlock({ blockNumber: head })
  if (headTime < time) return head + 1n
  let [low, high] = [lowest, head]
  const expected = head - (headTime - time) / BLOCK_SECONDS
  let [probe, step] = [expected > low ? expected : low, 1n]
  while (low < high) {
    if (probe < low || probe >= high) probe = (low + high) / 2n
    const isAfterProbe = await isBefore(probe)
    if (isAfterProbe) low = probe + 1n
    else high = probe
    probe = isAfterProbe ? low + step - 1n : high - step
    step *= 2n
  }
  return low
}
