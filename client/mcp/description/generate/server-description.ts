import type { ToolTexts } from '../../tool.ts'
import type { FOLDERS_ARGUMENT, ServerSetting } from '../settings.ts'

/** All that is said about the server in any place. */
export interface ServerDescription {
  readonly publisher: { readonly name: string; readonly serverName: string; readonly isInNpm: boolean }
  readonly packageName: string
  readonly version: string
  readonly license: string
  readonly keywords: readonly string[]
  /** The range of Node versions. */
  readonly node: string
  readonly title: string
  /** At most 100 characters. */
  readonly summary: string
  /** When an agent should think of it. */
  readonly occasion: string
  /** What the server tells its clients at the start. */
  readonly instructions: string
  readonly tools: readonly ToolTexts[]
  readonly settings: readonly ServerSetting[]
  readonly folders: typeof FOLDERS_ARGUMENT
}
