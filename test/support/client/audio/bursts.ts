/** A stretch of sound between silences, in milliseconds. */
export interface Burst {
  readonly startMs: number
  readonly endMs: number
}

interface WaveOptions {
  readonly durationMs: number
  readonly bursts: readonly Burst[]
  readonly sampleRate?: number
  /** Amplitude of a tone between the bursts, of 32,767; zero by default. */
  readonly background?: (timeMs: number) => number
}

/** Returns a WAV file with a tone of 440 Hz in each burst. */
export function waveOf({ durationMs, bursts, sampleRate = 16_000, background = () => 0 }: WaveOptions): Buffer {
  const count = Math.round((durationMs * sampleRate) / 1000)
  const wave = Buffer.alloc(44 + count * 2)
  wave.write('RIFF', 0, 'latin1')
  wave.writeUInt32LE(36 + count * 2, 4)
  wave.write('WAVEfmt ', 8, 'latin1')
  wave.writeUInt32LE(16, 16)
  wave.writeUInt16LE(1, 20)
  wave.writeUInt16LE(1, 22)
  wave.writeUInt32LE(sampleRate, 24)
  wave.writeUInt32LE(sampleRate * 2, 28)
  wave.writeUInt16LE(2, 32)
  wave.writeUInt16LE(16, 34)
  wave.write('data', 36, 'latin1')
  wave.writeUInt32LE(count * 2, 40)
  for (let index = 0; index < count; index++) {
    const timeMs = (index * 1000) / sampleRate
    const isLoud = bursts.some(({ startMs, endMs }) => timeMs >= startMs && timeMs < endMs)
    const amplitude = isLoud ? 12_000 : background(timeMs)
    wave.writeInt16LE(Math.round(amplitude * Math.sin((2 * Math.PI * 440 * index) / sampleRate)), 44 + index * 2)
  }
  return wave
}

/** Returns the bursts of decoded sound, whose edges are found to about 10 ms. */
export function burstsIn(samples: Int16Array, sampleRate: number): Burst[] {
  const step = sampleRate / 200
  const found: { startMs: number; endMs: number }[] = []
  for (let start = 0; start + step <= samples.length; start += step) {
    const isLoud = samples.subarray(start, start + step).some((sample) => Math.abs(sample) > 4000)
    const timeMs = (start * 1000) / sampleRate
    const last = found.at(-1)
    if (isLoud && last && timeMs - last.endMs < 20) last.endMs = timeMs + 5
    else if (isLoud) found.push({ startMs: timeMs, endMs: timeMs + 5 })
  }
  return found
}
