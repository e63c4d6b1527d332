import { expect, it } from 'vitest'
import { extraOutputSeconds } from '#shared/operations/text/output-time.ts'

it.each([
  [1, 0],
  [16_384, 0],
  [16_385, 1 / 128],
  [32_768, 128],
  [65_536, 384],
])('a request for up to %d output tokens gets %d seconds beyond the ordinary limit', (tokens, seconds) => {
  expect(extraOutputSeconds({ maximum_output_tokens: tokens, minimum_charge_usd: '0.002' }, 128)).toBe(seconds)
})

it.each([[{ price_per_audio_hour_usd: '0.122' }], [null], [{ maximum_output_tokens: '65536' }]])(
  'terms without output tokens get none: %j',
  (terms) => expect(extraOutputSeconds(terms, 128)).toBe(0),
)
