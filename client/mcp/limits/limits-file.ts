import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import * as z from 'zod'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { SpendingLimits } from '../tool.ts'
import { limitsCommand } from './limits-path.ts'
import { limitsSchema } from './limits-schema.ts'

const OTHERS_MAY_READ = 0o077
const OTHERS_MAY_WRITE = 0o022
/** Many times what all limits need. */
const MOST_BYTES = 64 << 10

// Windows knows none of these.
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants> & { O_RDONLY: number }

export interface LimitsFile {
  readonly limits: SpendingLimits
  readonly text: string
}

/** Reads a limits file; `null` if there is none. Throws `limits_unusable` unless only its owner can have written it. */
export function readLimitsFile(path: string): LimitsFile | null {
  const text = readPrivateText(path)
  if (text === null) return null
  const { success, data, error } = limitsSchema.safeParse(parse(path, text))
  if (success) return { limits: data, text }
  throw unusable(`The limits file ${path} is not valid: ${z.prettifyError(error)}`, resetAdvice(path))
}

function resetAdvice(path: string): string {
  return `The person corrects it, or runs in a terminal: ${limitsCommand(path, 'reset')}`
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw unusable(`The limits file ${path} is not JSON.`, resetAdvice(path), cause)
  }
}

/** Reads the file that was checked, whatever its name means meanwhile. */
function readPrivateText(path: string): string | null {
  const descriptor = open(path)
  if (descriptor === null) return null
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) throw unusable(`The limits file ${path} is not a regular file.`, resetAdvice(path))
    requirePrivate(path, stats, OTHERS_MAY_READ, 'chmod 600')
    requirePrivate(dirname(path), statSync(dirname(path)), OTHERS_MAY_WRITE, 'chmod 700')
    if (stats.size > MOST_BYTES) throw unusable(`The limits file ${path} is too large.`, resetAdvice(path))
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}

function open(path: string): number | null {
  try {
    return openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    const problem = code === 'ELOOP' ? 'is a symbolic link' : 'cannot be read'
    throw unusable(`The limits file ${path} ${problem}.`, resetAdvice(path), cause)
  }
}

function requirePrivate(path: string, { mode, uid }: Stats, others: number, mend: string): void {
  // Windows has no such modes.
  if (process.platform === 'win32') return
  if (uid !== process.getuid?.())
    throw unusable(
      `${path} belongs to another user.`,
      `Its owner runs in a terminal: chown ${process.getuid?.()} ${path}`,
    )
  if ((mode & others) === 0) return
  const octal = (mode & 0o777).toString(8)
  throw unusable(`${path} is accessible to other users (mode ${octal}).`, `The person runs: ${mend} ${path}`)
}

/** Nothing is paid for until a person has mended the file. */
export function unusable(problem: string, advice: string, cause?: unknown): FareboxError {
  return new FareboxError({ code: 'limits_unusable', problem, money: 'none', advice, cause })
}
