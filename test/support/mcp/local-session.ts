import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { createConfirmations } from '../../../client/mcp/confirm/confirmations.ts'
import { openFolders } from '../../../client/mcp/folders/open-folders.ts'
import { openLimits } from '../../../client/mcp/limits/open-limits.ts'
import { createServer } from '../../../client/mcp/server.ts'
import { openSession } from '../../../client/mcp/session.ts'
import { TOOLS } from '../../../client/mcp/tools/tools.ts'
import type { ServerSettings } from './local-server.ts'

/** A server in this process, connected to the official client without a process in between. */
export interface LocalSession {
  readonly client: Client
  readonly close: () => Promise<void>
}

/** Opens a session with its server and client. */
export async function openLocalSession({ baseUrl, rpcUrl, home, privateKey }: ServerSettings): Promise<LocalSession> {
  const environment = privateKey === undefined ? {} : { FAREBOX_PRIVATE_KEY: privateKey }
  const settings = { url: baseUrl, rpcUrl, home, keyFile: undefined, environment }
  const folders = await openFolders({ folders: [], hidden: [] })
  const limits = openLimits(home)
  const session = openSession(settings, { limits, folders })
  const confirmations = createConfirmations(limits)
  const parts = { session, tools: TOOLS, version: '1', confirmations, onError: ignore, onCall: ignore }
  const server = createServer(parts)
  const [near, far] = InMemoryTransport.createLinkedPair()
  await server.connect(far)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(near)
  return {
    client,
    close: async () => {
      await client.close()
      await session.close()
    },
  }
}

function ignore(): void {}
