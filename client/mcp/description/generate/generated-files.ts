import { readFileSync } from 'node:fs'
import { PUBLISHER } from '../publisher.ts'
import { FOLDERS_ARGUMENT, SERVER_SETTINGS } from '../settings.ts'
import { INSTRUCTIONS, SERVER, TOOL_TEXTS } from '../tool-texts.ts'
import { bundleManifest } from './bundle-manifest.ts'
import { installLines } from './install-lines.ts'
import { withSection } from './section.ts'
import type { ServerDescription } from './server-description.ts'
import { serverJson } from './server-json.ts'
import { skill } from './skill.ts'

/** The folder of the package. */
export const PACKAGE = new URL('../../../', import.meta.url)

/** Returns what is said about the server, from its texts and the package's own description. */
export function describeServer(): ServerDescription {
  const { name, version, license, keywords, engines } = JSON.parse(readPackageFile('package.json')) as PackageJson
  return {
    publisher: PUBLISHER,
    packageName: name,
    version,
    license,
    keywords,
    node: engines.node,
    title: SERVER.title,
    summary: SERVER.description,
    occasion: OCCASION,
    instructions: INSTRUCTIONS,
    tools: Object.values(TOOL_TEXTS),
    settings: SERVER_SETTINGS,
    folders: FOLDERS_ARGUMENT,
  }
}

const OCCASION =
  'Makes paid calls of AI models through the MCP server farebox: text, images, speech and transcripts of recordings, paid per ' +
  'request in USDC from the wallet of the person, within limits that only they change. Use it to transcribe a recording, a ' +
  'folder or a URL, to ask another model, to make an image or speech, and to show or verify what was paid.'

interface PackageJson {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly keywords: readonly string[]
  readonly engines: { readonly node: string }
}

/** Returns the texts of all generated files, by their paths in the package. */
export function generatedFiles(description: ServerDescription): ReadonlyMap<string, string> {
  return new Map([
    ['server.json', jsonText(serverJson(description))],
    ['mcp/bundle/manifest.json', jsonText(bundleManifest(description))],
    [`skills/${description.packageName}/SKILL.md`, skill(description)],
    ['README.md', withSection(readPackageFile('README.md'), 'install lines', installLines(description))],
  ])
}

function jsonText(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

export function readPackageFile(path: string): string {
  return readFileSync(new URL(path, PACKAGE), 'utf8')
}
