import { describe, expect, it } from 'vitest'
import { createBlockRhythm } from '#shared/adapters/chain/reading/block-rhythm.ts'

const INTERVAL_MS = 2000
/** When block 0 came, by the clock of the process. */
const FIRST_MS = 100

/** Returns a rhythm that saw these blocks, each some time after it came. */
function after(seen: readonly (readonly [number: number, lateMs: number])[], secondsEach = 2) {
  const rhythm = createBlockRhythm()
  for (const [number, lateMs] of seen)
    rhythm.seen(
      { number: BigInt(number), timestamp: BigInt(1000 + number * secondsEach) },
      FIRST_MS + number * secondsEach * 1000 + lateMs,
    )
  return rhythm
}

const cameMs = (number: number) => FIRST_MS + number * INTERVAL_MS

describe('the expected next block', () => {
  it('follows the block that was seen earliest in relation to its number', () => {
    const rhythm = after([
      [1, 200],
      [2, 10],
      [3, 240],
    ])
    expect(rhythm.nextBlock(cameMs(3) + 300)).toEqual({ sinceMs: cameMs(3) + 10, expectedMs: cameMs(4) + 10 })
  })

  it('is continued past blocks that were not seen', () => {
    const rhythm = after([
      [1, 10],
      [2, 10],
      [5, 10],
    ])
    expect(rhythm.nextBlock(cameMs(9) + 500)).toEqual({ sinceMs: cameMs(9) + 10, expectedMs: cameMs(10) + 10 })
  })

  it('is the next possible one where blocks were missed', () => {
    const rhythm = createBlockRhythm()
    for (const [number, seconds] of [
      [1n, 12n],
      [2n, 24n],
      [3n, 48n],
    ] as const)
      rhythm.seen({ number, timestamp: seconds }, Number(seconds) * 1000)
    expect(rhythm.nextBlock(49_000)).toEqual({ sinceMs: 48_000, expectedMs: 60_000 })
  })

  it('forgets the blocks that a reorganization replaced', () => {
    const rhythm = after([
      [1, 10],
      [2, 10],
      [3, 10],
    ])
    rhythm.seen({ number: 2n, timestamp: 1004n }, cameMs(3) + 500)
    expect(rhythm.nextBlock(cameMs(3) + 600)).toBeNull()
  })

  it.each([
    [
      'too few blocks were seen',
      after([
        [1, 0],
        [2, 0],
      ]),
      cameMs(2),
    ],
    [
      'the last one was seen long ago',
      after([
        [1, 0],
        [2, 0],
        [3, 0],
      ]),
      cameMs(3) + 60_000,
    ],
    [
      'blocks share a second',
      after(
        [
          [1, 0],
          [2, 0],
          [3, 0],
        ],
        0,
      ),
      FIRST_MS,
    ],
  ] as const)('is unknown when %s', (_, rhythm, nowMs) => {
    expect(rhythm.nextBlock(nowMs)).toBeNull()
  })
})
