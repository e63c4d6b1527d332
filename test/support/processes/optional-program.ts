import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Programs that some tests need and `npm ci` does not install, with their Debian packages. */
const DEBIAN_PACKAGES = {
  'docker-compose': 'docker-compose',
  ffmpeg: 'ffmpeg',
  kubectl: 'kubernetes-client',
  lame: 'lame',
  mpg123: 'mpg123',
  'redis-server': 'redis-server',
  sox: 'sox',
} as const

export type OptionalProgram = keyof typeof DEBIAN_PACKAGES

function isOnPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/**
 * Returns whether all programs are installed, for `describe.skipIf(!havePrograms('lame'))`. Warns when one is missing;
 * with `CI=true` it throws instead, so that CI skips nothing.
 */
export function havePrograms(...programs: readonly OptionalProgram[]): boolean {
  const missing = programs.filter((program) => !isOnPath(program))
  if (missing.length === 0) return true
  const packages = missing.map((program) => DEBIAN_PACKAGES[program]).join(' ')
  const message = `These tests need ${missing.join(', ')}, not found on the PATH: apt-get install ${packages}`
  if (process.env['CI'] === 'true') throw new Error(message)
  console.warn(`SKIPPED. ${message}`)
  return false
}
