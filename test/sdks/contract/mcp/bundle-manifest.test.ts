import { getMcpConfigForManifest, MANIFEST_SCHEMAS } from '@anthropic-ai/mcpb'
import { describe, expect, test } from 'vitest'
import { describeServer, readPackageFile } from '../../../../client/mcp/description/generate/generated-files.ts'
import { bundleManifest } from '../../../../client/mcp/description/generate/server-json.ts'
import { TOOLS } from '../../../../client/mcp/tools/tools.ts'

const description = describeServer()
const packageJson = JSON.parse(readPackageFile('package.json'))

describe('the manifest of the bundle', () => {
  const manifest = MANIFEST_SCHEMAS['0.3'].parse(bundleManifest(description))
  const configure = (userConfig: Record<string, string | string[]>) =>
    getMcpConfigForManifest({ manifest, extensionPath: '/bundle', systemDirs: {}, userConfig, pathSeparator: '/' })
  const required = { url: 'https://service.example', key_file: '/keys/key' }

  test('is one that strict clients accept, with the tools and the entry point of the package', () => {
    expect(manifest.tools?.map(({ name }) => name)).toEqual(TOOLS.map(({ name }) => name))
    expect(manifest.server.entry_point).toBe(`node_modules/farebox/${packageJson.bin.farebox}`)
  })

  test('starts the server with the person’s settings and folders', async () => {
    expect(await configure({ ...required, rpc_url: 'https://node.example', folders: ['/a', '/b c'] })).toEqual({
      command: 'node',
      args: ['/bundle/node_modules/farebox/bin/farebox.js', 'mcp', '/a', '/b c'],
      env: {
        FAREBOX_URL: 'https://service.example',
        FAREBOX_KEY_FILE: '/keys/key',
        FAREBOX_RPC_URL: 'https://node.example',
        FAREBOX_HOME: '',
      },
    })
  })

  test('leaves no placeholder where a person set nothing, and starts nothing without a service and a key', async () => {
    expect(JSON.stringify(await configure(required))).not.toContain('user_config')
    expect(await configure({ url: required.url })).toBeUndefined()
  })

  test('takes the key as a file, never as a value that the client would store', () => {
    expect(manifest.user_config?.['key_file']).toMatchObject({ type: 'file' })
    expect(JSON.stringify(manifest)).not.toContain('PRIVATE_KEY')
  })
})
