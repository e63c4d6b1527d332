import { describe, expect, it } from 'vitest'
import { readableText } from '../../../infra/sandbox/upstream/speaking/flite/readable-text.ts'

describe('what an English voice is given to read', () => {
  it.each([
    ['plain text', 'Next stop: 3.50 USD (27%).', 'Next stop: 3.50 USD (27%).'],
    ['letters with marks', 'Señor Müller, déjà vu', 'Senor Muller, deja vu'],
    ['letters without a decomposition', 'Straße, Łódź, Ærø', 'Strasse, Lodz, Aero'],
    ['quotes and dashes', '“Mind – the ‘step’”', '"Mind , the \'step\'"'],
    ['fractions and currencies', '½ €', '1/2 euros '],
    ['another script', 'Он сказал: привет, мир! Good.', 'text in another script Good.'],
    ['another script twice', '駅 station 東京', 'text in another script station text in another script'],
    ['symbols only', '🙂 ★', ' '],
    ['control characters and lines', 'one\ntwo\u0007 three', 'one two three'],
  ])('changes %s', (_, given, expected) => {
    expect(readableText(given)).toBe(expected)
  })
})
