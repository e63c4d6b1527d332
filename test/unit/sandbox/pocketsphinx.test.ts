import { expect, it } from 'vitest'
import { readWordTimes } from '../../../infra/sandbox/upstream/hearing/pocketsphinx.ts'

/** What the program of Debian 12 wrote for flite's `Mind the step`, and with a noise. */
const OUTPUT = `nine this
<s> 0.000 0.200 0.999400
<sil> 2.180 2.200 0.628038
nine 2.210 2.580 0.339078
[NOISE] 2.580 2.590 1.000000
the(2) 2.590 2.810 0.017119
++BREATH++ 2.810 2.820 1.000000
o'clock 3.240 3.770 1.000700
</s> 5.670 5.810 1.000000
`

it('reads words and their times, and neither silence nor noise nor sentences', () => {
  expect(readWordTimes(OUTPUT)).toEqual([
    { text: 'nine', speaker: 0, startSeconds: 2.21, endSeconds: 2.58 },
    { text: 'the', speaker: 0, startSeconds: 2.59, endSeconds: 2.81 },
    { text: "o'clock", speaker: 0, startSeconds: 3.24, endSeconds: 3.77 },
  ])
  expect(readWordTimes('')).toEqual([])
})
