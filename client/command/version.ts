import { existsSync, readFileSync } from 'node:fs'

/** Returns the version of the package, whose description is next to this folder, or outside of the build. */
export function readVersion(): string {
  const [file] = ['../package.json', '../../../package.json']
    .map((path) => new URL(path, import.meta.url))
    .filter(existsSync)
  if (file === undefined) return 'unknown'
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
