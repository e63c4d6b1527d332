import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Programs that some tests need and `npm ci` does not bring, by the Debian package that does. */
const debianPackages = {
  'docker-compose': 'docker-compose',
  ffmpeg: 'ffmpeg',
  kubectl: 'kubernetes-client',
  lame: 'lame',
  mpg123: 'mpg123',
  'redis-server': 'redis-server',
  sox: 'sox',
} as const

export type OptionalProgram = keyof typeof debianPackages

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
 * Whether all the programs are installed, for `describe.skipIf(!havePrograms('lame'))`. Where one is missing it says so
 * aloud and returns false; with `CI=true` it throws instead, so that nothing is skipped unseen.
 */
export function havePrograms(...programs: readonly OptionalProgram[]): boolean {
  const missing = programs.filter((program) => !isOnPath(program))
  if (missing.length === 0) return true
  const packages = missing.map((program) => debianPackages[program]).join(' ')
  const message = `These tests need ${missing.join(', ')}, not found on the PATH: apt-get install ${packages}`
  if (process.env['CI'] === 'true') throw new Error(message)
  console.warn(`SKIPPED. ${message}`)
  return false
}
