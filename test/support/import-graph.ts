import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** The files that each file imports: its types, and what it loads when it needs it, included. */
export type Graph = ReadonlyMap<string, readonly string[]>

export function readGraph(): Graph {
  const paths = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '--deduplicate', '*.ts'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  return new Map(
    paths
      .trim()
      .split('\n')
      .flatMap((path) => {
        const text = textOf(path)
        return text === null ? [] : [[path, importsOf(path, text)] as const]
      }),
  )
}

/** Returns `null` for a file that is deleted and not committed. */
function textOf(path: string): string | null {
  try {
    return readFileSync(join(ROOT, path), 'utf8')
  } catch {
    return null
  }
}

/** Returns what a file imports, as paths from the repository’s folder; packages are left out. */
export function importsOf(path: string, text: string): readonly string[] {
  const { staticImports, staticExports, dynamicImports } = parseSync(path, text).module
  return [
    ...staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? [])),
    ...dynamicImports.flatMap(
      ({ moduleRequest: { start, end } }) => /^['"`](.*)['"`]$/.exec(text.slice(start, end))?.[1] ?? [],
    ),
  ].flatMap((specifier) => {
    if (specifier.startsWith('#')) return specifier.replace(/^#(?=mp3|receipts)/, 'packages/').replace('#', '')
    return specifier.startsWith('.') ? join(dirname(path), specifier) : []
  })
}
