import type { ChildProcess } from 'node:child_process'
import type { FfmpegCommand } from 'fluent-ffmpeg'

/**
 * Overrides of private parts of fluent-ffmpeg 2.1.3. The package is archived at that version, so they will neither change nor
 * be fixed. `test/nightly/audio/decoders.test.ts` runs every decode through them; they go with the package.
 */

interface LineRing {
  get: () => string
}
type OnProcess = (child: ChildProcess, stdout: LineRing, stderr: LineRing) => void
type OnEnd = (error: Error | undefined, stdout: LineRing, stderr: LineRing) => void

interface FluentInternals {
  readonly _getArguments: () => string[]
  readonly _spawnFfmpeg: (spawnArguments: string[], options: object, onProcess: OnProcess, onEnd: OnEnd) => void
}

const EMPTY_RING: LineRing = { get: () => '' }

/**
 * Makes `run` start `program` before it returns, and returns a function that returns the child. Overrides `_prepare`, which
 * would start ffmpeg twice more to list formats and encoders (60 ms each, outside all limits); `_getFfmpegPath`, whose cache is
 * global to the process; and `_spawnFfmpeg`, whose callback throws from an event when no process can be started.
 */
export function spawnDirectly(command: FfmpegCommand, program: string): () => ChildProcess | undefined {
  const internals = command as unknown as FluentInternals
  // oxlint-disable-next-line no-underscore-dangle
  const spawn = internals._spawnFfmpeg.bind(command)
  // oxlint-disable-next-line no-underscore-dangle
  const getArguments = internals._getArguments.bind(command)
  let child: ChildProcess | undefined
  Object.assign(command, {
    _prepare: (proceed: (error: null, commandArguments: string[]) => void) => proceed(null, getArguments()),
    _getFfmpegPath: (proceed: (error: null, path: string) => void) => proceed(null, program),
    _spawnFfmpeg: ((spawnArguments, spawnOptions, onProcess, onEnd) => {
      spawn(
        spawnArguments,
        spawnOptions,
        (spawned, stdout, stderr) => {
          child = spawned
          onProcess(spawned, stdout, stderr)
        },
        (error, stdout?: LineRing, stderr?: LineRing) => onEnd(error, stdout ?? EMPTY_RING, stderr ?? EMPTY_RING),
      )
    }) satisfies FluentInternals['_spawnFfmpeg'],
  })
  return () => child
}
