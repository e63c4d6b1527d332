import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, join, resolve } from 'node:path'

export interface FindFfmpegOptions {
  /** The configured path (`FFMPEG_PATH`). When set, no other is tried. */
  readonly configuredPath?: string | undefined
  /** The search path of the process (`PATH`). */
  readonly searchPath?: string | undefined
  /**
   * Returns the absolute path of the npm package's binary; by default that of `@ffmpeg-installer/ffmpeg`, if installed.
   */
  readonly packagedPath?: () => string | undefined
}

async function isExecutableFile(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

/**
 * Returns the path inside the optional package, or undefined when it is not installed or has no binary for this
 * platform.
 */
function packagedFfmpegPath(): string | undefined {
  try {
    const installer = createRequire(import.meta.url)('@ffmpeg-installer/ffmpeg') as { path?: unknown }
    return typeof installer.path === 'string' ? installer.path : undefined
  } catch {
    return undefined
  }
}

/**
 * Returns the absolute path of the ffmpeg to use: the configured one, else the first on the search path, else that of
 * the optional npm package `@ffmpeg-installer/ffmpeg` (a build of 2018, meant for the sandbox and not for production).
 * Returns undefined when there is none, or when the configured one is not an executable file: there is no fallback from
 * a configured path.
 */
export async function findFfmpeg(options: FindFfmpegOptions): Promise<string | undefined> {
  const { configuredPath, searchPath = '', packagedPath = packagedFfmpegPath } = options
  if (configuredPath !== undefined && configuredPath !== '') {
    const path = resolve(configuredPath)
    return (await isExecutableFile(path)) ? path : undefined
  }
  const name = process.platform === 'win32' ? 'ffmpeg.exe' : 'ffmpeg'
  for (const folder of searchPath.split(delimiter)) {
    if (folder === '') continue
    const path = resolve(join(folder, name))
    if (await isExecutableFile(path)) return path
  }
  const packaged = packagedPath()
  return packaged !== undefined && (await isExecutableFile(packaged)) ? packaged : undefined
}
