import { type AudioLimits, shrinkAdvice, splitAdvice } from '#shared/audio/conversion.ts'

/** Returns the message about an upload with more bytes than the limit. */
export function tooLarge(bytes: number, limits: AudioLimits): string {
  const limit = withThousands(limits.maximumBytes)
  return `The audio has ${withThousands(bytes)} bytes; the limit is ${limit}. ${shrinkAdvice(limits)}`
}

/** Returns the message about audio that lasts longer than the limit. */
export function tooLong(durationMs: number, limits: AudioLimits): string {
  const limit = withThousands(limits.maximumDurationMs)
  return `The audio lasts ${withThousands(durationMs)} ms; the limit is ${limit} ms. ${splitAdvice(limits)}`
}

export function withThousands(value: number): string {
  return value.toLocaleString('en-US')
}
