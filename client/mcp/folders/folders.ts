import type { FileHandle } from 'node:fs/promises'
import type { OutputFiles, Source } from '../../batch/types.ts'

/** The folders that tools may read recordings from and write transcripts to, as a person named them at the start. */
export interface Folders {
  /** Real paths. */
  readonly roots: readonly string[]
  /**
   * Returns the recordings at a path: the file, or those of a folder and its folders, without what leads out of the
   * allowed folders. A relative path begins in an allowed folder. Throws `path_not_allowed` and `file_missing`.
   */
  find(path: string): Promise<FoundRecordings>
  /** Opens a file for reading. It is certain that what is open is in an allowed folder, whatever its name means later. */
  open(path: string): Promise<OpenedFile>
  /**
   * Throws unless these files, which were measured by path, are regular files of an allowed folder with the content
   * that was measured.
   */
  requireMeasured(files: readonly MeasuredFile[], signal?: AbortSignal): Promise<void>
  /** Returns the real path of a folder to write to, which may not exist yet. Throws `path_not_allowed`. */
  outputFolder(path: string): Promise<string>
  /** Writes transcripts into allowed folders only, and never through a link. */
  readonly output: OutputFiles
  /** Fetches a recording from a URL into a private temporary file; once in a session. */
  fetch(url: string, options: FetchOptions): Promise<FetchedRecording>
  /** Removes what was fetched. */
  close(): Promise<void>
}

export interface FoundRecordings {
  readonly kind: 'file' | 'folder'
  /** Real path of what was named. */
  readonly path: string
  /** Their paths have no links. */
  readonly sources: readonly Source[]
  /** How many entries were left out because they lead out of the allowed folders or cannot be read. */
  readonly leftOut: number
}

export interface OpenedFile {
  /** Real path. */
  readonly path: string
  /** The caller closes it. */
  readonly handle: FileHandle
  readonly bytes: number
}

export interface MeasuredFile {
  readonly path: string
  /** Hexadecimal. */
  readonly sha256: string
}

export interface FetchOptions {
  readonly signal: AbortSignal
  readonly onProgress?: ((bytes: number, total: number | undefined) => void) | undefined
}

export interface FetchedRecording {
  /** Removed when the session ends. */
  readonly path: string
  readonly bytes: number
  /** Hexadecimal SHA-256. */
  readonly sha256: string
}

export interface FoldersOptions {
  /** What tools may read and write; none by default, so that only URLs can be transcribed. */
  readonly folders: readonly string[]
  /** Files and folders of farebox itself (home, limits, key file), which must not be in an allowed folder. */
  readonly hidden: readonly string[]
  /** Lets URLs lead to this machine and its network. */
  readonly allowsPrivateAddresses?: boolean | undefined
}
