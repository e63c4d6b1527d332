import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, join, resolve } from 'node:path'

export interface FindFfmpegOptions {
  /** The operator's own choice (`FFMPEG_PATH`). When given, nothing else is tried. */
  readonly configuredPath?: string | undefined
  /** The search path of the process (`PATH`). */
  readonly searchPath?: string | undefined
  /** Absolute path of the npm package's binary; by default looked up in `@ffmpeg-installer/ffmpeg`, if installed. */
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

/** Path inside the optional package; undefined when it is not installed or has no binary for this platform. */
function packagedFfmpegPath(): string | undefined {
  try {
    const installer = createRequire(import.meta.url)('@ffmpeg-installer/ffmpeg') as { path?: unknown }
    return typeof installer.path === 'string' ? installer.path : undefined
  } catch {
    return undefined
  }
}

/**
 * Absolute path of the ffmpeg to use: the configured one, else the first on the search path, else the one that the
 * optional npm package `@ffmpeg-installer/ffmpeg` brings (a build of 2018: for the sandbox, not for a service). Undefined
 * when there is none, or when the configured one is not an executable file: an operator's choice is not second-guessed.
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
