import { describe, expect, it } from 'vitest'
import { type BatchEvidence, checkBatch } from './check-batch.ts'
import { drawKills, drawServiceKills } from './draw-kills.ts'

const clips = ['a', 'b'].map((name) => ({ name, script: `Speech of ${name}.` }))
const consistent: BatchEvidence = {
  clips,
  priceAtomic: 5034n,
  transcripts: new Map([
    ['a', 'Speech of a.\n'],
    ['b', 'Speech\nof b.'],
  ]),
  strayFiles: [],
  transfers: [5034n, 5034n],
  spentAtomic: 10_068n,
  receipts: [
    { receiptId: 'r1', heard: 'Speech of a.' },
    { receiptId: 'r2', heard: 'Speech of b.' },
  ],
  journaledAtomic: 10_068n,
  exitCode: 0,
}

describe('the checker of a batch', () => {
  it('reports nothing about a batch in which each clip was transcribed and paid for once', () => {
    expect(checkBatch(consistent)).toEqual([])
    expect(checkBatch({ ...consistent, journaledAtomic: null })).toEqual([])
  })

  it.each<[string, Partial<BatchEvidence>, string[]]>([
    ['a run that failed', { exitCode: 1 }, ['the last run ended with exit code 1']],
    ['a missing transcript', { transcripts: new Map([['a', 'Speech of a.']]) }, ['b has no transcript']],
    [
      'a transcript of another recording',
      {
        transcripts: new Map([
          ['a', 'Speech of b.'],
          ['b', 'Speech of b.'],
        ]),
      },
      ['the transcript of a is "Speech of b."'],
    ],
    ['an incomplete file', { strayFiles: ['a.txt.123'] }, ['the file a.txt.123 was left in the output folder']],
    [
      'a clip that was paid for twice',
      {
        transfers: [5034n, 5034n, 5034n],
        spentAtomic: 15_102n,
        journaledAtomic: 15_102n,
        receipts: [...consistent.receipts, { receiptId: 'r3', heard: 'Speech of b.' }],
      },
      ['15102 was charged on chain for 2 × 5034 = 10068', 'b has 2 receipts'],
    ],
    [
      'charges that deviate by one atomic unit and cancel out',
      { transfers: [5033n, 5035n] },
      ['2 transfers are not the price, such as 5033'],
    ],
    ['a payer who has paid elsewhere', { spentAtomic: 10_069n }, ['the payer has 10069 less, but transferred 10068']],
    [
      'a journal that has lost a charge',
      { journaledAtomic: 5034n },
      ['the journal counts 5034, but 10068 was charged on chain'],
    ],
    [
      'a receipt for another recording',
      {
        receipts: [
          { receiptId: 'r1', heard: 'Speech of a.' },
          { receiptId: 'r2', heard: null },
        ],
      },
      ['the receipt r2 is for none of the clips', 'b has 0 receipts'],
    ],
  ])('reports %s', (_, change, expected) => {
    expect(checkBatch({ ...consistent, ...change })).toEqual(expected)
  })
})

describe('the moments of a campaign', () => {
  it('are the same for the same seed, in the order of progress, and others for another seed', () => {
    const kills = drawKills(7, 20, 1000)
    expect(drawKills(7, 20, 1000)).toEqual(kills)
    expect(drawKills(8, 20, 1000)).not.toEqual(kills)
    const progress = kills.flatMap(({ afterFinished }) => afterFinished ?? [])
    expect(progress).toEqual(progress.toSorted((a, b) => a - b))
    expect(drawServiceKills(7, 6, 1000).filter(({ part }) => part === 'api')).toHaveLength(3)
  })
})
