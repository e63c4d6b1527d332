/** A setting that a person makes where the server is started. No tool changes one. */
export interface ServerSetting {
  /** The environment variable. */
  readonly variable: string
  readonly title: string
  readonly description: string
  readonly kind: 'text' | 'file' | 'folder'
  readonly isRequired: boolean
  readonly example: string
}

/** The settings of `farebox mcp`, which are those of the command. */
export const SERVER_SETTINGS: readonly ServerSetting[] = [
  {
    variable: 'FAREBOX_URL',
    title: 'Service',
    description: 'The farebox service that answers and is paid.',
    kind: 'text',
    isRequired: true,
    example: 'https://farebox.example',
  },
  {
    variable: 'FAREBOX_KEY_FILE',
    title: 'Key file',
    description:
      'A file with the private key of a wallet that holds USDC on Base; only its owner may read it (mode 600).',
    kind: 'file',
    isRequired: true,
    example: '/home/you/.config/farebox/key',
  },
  {
    variable: 'FAREBOX_RPC_URL',
    title: 'Node of the chain',
    description:
      'Optional: a node of Base that finds the transfers of receipts, and tells early which payments need a permit.',
    kind: 'text',
    isRequired: false,
    example: 'https://mainnet.base.org',
  },
  {
    variable: 'FAREBOX_HOME',
    title: 'Journal',
    description: 'Optional: the folder of the journal and the limits; by default that of the farebox command.',
    kind: 'folder',
    isRequired: false,
    example: '/home/you/.local/share/farebox',
  },
]

/** The arguments behind `farebox mcp`. */
export const FOLDERS_ARGUMENT = {
  name: 'folders',
  title: 'Folders',
  description: 'Folders that tools may read recordings from and write transcripts to; none by default.',
  example: '/home/you/recordings',
} as const
