import { defineConfig } from 'oxlint'

/**
 * For each room, the rooms of its house that it may import; a room may always import itself. Files next to the rooms and those of
 * `composition/` compose the rooms and are imported by none of them.
 */
export const HOUSES = {
  api: {
    schemas: [],
    request: ['schemas'],
    allowances: ['paid-request', 'request', 'schemas'],
    limits: ['request'],
    telemetry: ['limits', 'request'],
    plugins: ['limits', 'request', 'telemetry'],
    'paid-request': ['request', 'schemas'],
    mcp: ['limits', 'paid-request', 'plugins', 'request', 'schemas'],
    openapi: ['schemas'],
    routes: ['allowances', 'limits', 'mcp', 'openapi', 'paid-request', 'plugins', 'request', 'schemas'],
  },
  workers: {
    providers: [],
    executions: ['providers'],
    screening: ['providers'],
    job: ['executions', 'providers', 'screening'],
    sweepers: [],
    settlement: ['job', 'sweepers'],
    telemetry: ['job', 'providers', 'settlement'],
  },
  operator: {
    sessions: [],
    rendering: ['sessions'],
    pages: ['rendering', 'sessions'],
  },
} as const

/** The same for the domain, which is imported as `#shared/…`. */
export const DOMAIN = {
  archive: ['errors', 'media'],
  audio: [],
  csv: [],
  digests: ['json'],
  errors: [],
  json: [],
  money: [],
  runtime: [],
  media: ['digests'],
  pricing: ['money'],
  catalog: ['digests', 'money'],
  operations: ['catalog', 'digests', 'errors', 'json', 'money', 'pricing'],
  payment: ['digests', 'json', 'money'],
  operators: ['catalog', 'digests', 'errors', 'jobs', 'money', 'operations', 'payment', 'pricing', 'runtime'],
  jobs: ['digests', 'errors', 'json', 'media', 'money', 'operations', 'payment', 'pricing', 'runtime'],
} as const

/** They are what they are: PostgreSQL is the only source of truth, and one chain is paid on. Their types need no port. */
export const WITHOUT_PORTS = ['ledger', 'chain'] as const

/** The same for adapters, which may name `ledger` and `chain` as well. */
export const ADAPTERS = {
  bullmq: ['ledger', 'redis'],
  disk: [],
  opentelemetry: [],
  process: ['bullmq', 'ledger', 'opentelemetry'],
  redis: [],
  'remote-facilitator': ['chain'],
  s3: [],
} as const

/** The rooms of the ledger, `shared/ledger`. All of them import the files next to them, which import no room. */
export const LEDGER = {
  archive: [],
  operators: [],
  configuration: ['operators'],
  resolutions: ['operators'],
  console: ['reports'],
  retention: [],
  settlement: [],
  allowances: [],
  reports: [],
  acceptance: ['retention'],
  execution: ['acceptance', 'retention'],
} as const

/** How deep folders inside a room may be nested; `test/contract/lint-rules.test.ts` shows that none is deeper. */
export const DEEPEST_FOLDER = 2

type RestrictedImports = { group: string[]; message: string; allowTypeImports?: true }
type Override = { files: string[]; rules: { 'no-restricted-imports': ['error', { patterns: RestrictedImports[] }] } }

const NOT_THE_CLIENT = {
  group: ['**/../client/**', 'farebox', 'farebox/**'],
  message: 'The client is the buyer’s side: api, workers, operator, shared and infra never import it.',
}

function restrict(files: string[], patterns: RestrictedImports[]): Override {
  return { files, rules: { 'no-restricted-imports': ['error', { patterns: [...patterns, NOT_THE_CLIENT] }] } }
}

const COMPOSED_ONLY: RestrictedImports[] = [
  {
    group: ['**/adapters/**'],
    message: 'Only the composition root imports adapters; take what you need as a parameter.',
  },
  {
    group: WITHOUT_PORTS.map((room) => `#shared/${room}/**`),
    allowTypeImports: true,
    message: 'Only the composition root imports the values of ledger and chain; their types may be imported.',
  },
]
const NEITHER_INFRA_NOR_TESTS = {
  group: ['**/infra/**', '**/test/**'],
  message: 'api, workers and operator never import infra or test.',
}
const NOT_EACH_OTHER = {
  group: ['**/../workers/**', '**/../api/**', '**/../operator/**'],
  message: 'api, workers and operator never import each other.',
}

/** Returns an override for each room and depth: relative imports begin with as many `../` as the file is deep. */
function roomsOf(house: keyof typeof HOUSES): Override[] {
  const rooms: Record<string, readonly string[]> = HOUSES[house]
  return Object.entries(rooms).flatMap(([room, allowed]) =>
    Array.from({ length: DEEPEST_FOLDER + 1 }, (_, depth) => {
      const up = '../'.repeat(depth + 1)
      const forbidden = Object.keys(rooms).filter((other) => other !== room && !allowed.includes(other))
      return restrict(
        [`${house}/${room}/${'*/'.repeat(depth)}*.ts`],
        [
          ...COMPOSED_ONLY,
          NEITHER_INFRA_NOR_TESTS,
          NOT_EACH_OTHER,
          {
            group: [...forbidden.map((other) => `${up}${other}/**`), `${up}composition/**`, `${up}*.ts`],
            message: `${house}/${room} imports ${allowed.length === 0 ? 'no other room' : `only ${allowed.join(', ')}`} of ${house}; see ARCHITECTURE.md.`,
          },
        ],
      )
    }),
  )
}

/** Domain folders import zod, Node's own modules, and the domain folders below them. */
const domainRooms = Object.entries(DOMAIN as Record<string, readonly string[]>).map(([room, allowed]) =>
  restrict(
    [`shared/${room}/**`],
    [
      {
        group: ['**/api/**', '**/workers/**', '**/operator/**', '**/infra/**', '**/test/**'],
        message: 'shared is below api, workers, operator, infra and test: it never imports them.',
      },
      {
        group: ['adapters', ...WITHOUT_PORTS].flatMap((room) => [`**/${room}/**`, `#shared/${room}/**`]),
        message: 'Domain folders never import adapters, ledger or chain; the composition roots do.',
      },
      {
        group: ['pg', 'bullmq', 'ioredis', 'viem', 'viem/**', '@x402/**', 'fastify', '@fastify/**'],
        message: 'Domain folders import only zod, Node’s own modules and each other.',
      },
      {
        group: Object.keys(DOMAIN)
          .filter((other) => other !== room && !allowed.includes(other))
          .flatMap((other) => [`#shared/${other}/**`, `../${other}/**`]),
        message: `shared/${room} imports ${allowed.length === 0 ? 'no other folder of the domain' : `only ${allowed.join(', ')}`}; see ARCHITECTURE.md.`,
      },
    ],
  ),
)

const BELOW_THE_HOUSES = {
  group: ['**/api/**', '**/workers/**', '**/operator/**', '**/infra/**', '**/test/**'],
  message: 'Adapters, ledger and chain are below api, workers, operator, infra and test: they never import them.',
}
const adapterRooms = Object.entries(ADAPTERS as Record<string, readonly string[]>).map(([room, allowed]) => {
  const isForbidden = (other: string) => other !== room && !allowed.includes(other)
  return restrict(
    [`shared/adapters/${room}/**`],
    [
      BELOW_THE_HOUSES,
      {
        group: [
          ...Object.keys(ADAPTERS)
            .filter(isForbidden)
            .flatMap((other) => [`#shared/adapters/${other}/**`, `../${other}/**`, `../../${other}/**`]),
          ...WITHOUT_PORTS.filter(isForbidden).map((other) => `#shared/${other}/**`),
        ],
        message: `The adapter ${room} imports ${allowed.length === 0 ? 'no other adapter' : `only ${allowed.join(', ')}`}; see ARCHITECTURE.md.`,
      },
    ],
  )
})

/** Ledger and chain import the domain only. */
function withoutPorts(room: (typeof WITHOUT_PORTS)[number]): RestrictedImports[] {
  return [
    BELOW_THE_HOUSES,
    {
      group: ['adapters', ...WITHOUT_PORTS.filter((other) => other !== room)].flatMap((other) => [
        `#shared/${other}/**`,
        `**/../${other}/**`,
      ]),
      message: `shared/${room} imports the domain only; see ARCHITECTURE.md.`,
    },
  ]
}
const ledgerRooms = [
  restrict(
    ['shared/ledger/*.ts'],
    [
      ...withoutPorts('ledger'),
      {
        group: Object.keys(LEDGER).map((room) => `./${room}/**`),
        message: 'Files next to the ledger’s rooms import none of them.',
      },
    ],
  ),
  ...Object.entries(LEDGER as Record<string, readonly string[]>).map(([room, allowed]) =>
    restrict(
      [`shared/ledger/${room}/*.ts`],
      [
        ...withoutPorts('ledger'),
        {
          group: Object.keys(LEDGER)
            .filter((other) => other !== room && !allowed.includes(other))
            .map((other) => `../${other}/**`),
          message: `The ledger’s ${room} imports ${allowed.length === 0 ? 'no other room' : `only ${allowed.join(', ')}`}; see ARCHITECTURE.md.`,
        },
      ],
    ),
  ),
]

export default defineConfig({
  plugins: ['typescript', 'unicorn', 'oxc', 'import', 'promise', 'node', 'vitest'],
  categories: { correctness: 'error', suspicious: 'error' },
  ignorePatterns: ['.farebox', 'coverage'],
  rules: {
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'import/no-unassigned-import': 'off',
    'import/default': 'off',
    'import/no-named-as-default-member': 'off',
    'typescript/no-floating-promises': 'error',
    'typescript/no-misused-promises': 'error',
    'typescript/await-thenable': 'error',
    'typescript/no-explicit-any': 'error',
    'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    'typescript/no-unnecessary-type-assertion': 'error',
    'typescript/only-throw-error': 'error',
    'typescript/return-await': ['error', 'error-handling-correctness-only'],
    'typescript/no-non-null-assertion': 'error',
    'typescript/consistent-type-imports': 'error',
    'typescript/no-unsafe-type-assertion': 'off',
    'eslint/no-await-in-loop': 'off',
    'eslint/no-shadow': 'off',
    'typescript/consistent-return': 'off',
    'node/no-process-env': 'error',
    'unicorn/no-array-sort': 'off',
    'vitest/no-focused-tests': 'error',
    'vitest/no-disabled-tests': 'error',
    'vitest/expect-expect': 'off',
    'vitest/no-conditional-tests': 'off',
    'vitest/require-mock-type-parameters': 'off',
    'vitest/prefer-called-exactly-once-with': 'off',
  },
  overrides: [
    { files: ['**/config.ts', 'infra/**', 'test/**', '*.config.ts'], rules: { 'node/no-process-env': 'off' } },
    {
      files: [
        'client/command/io.ts',
        'client/journal/home-directory.ts',
        'client/mcp/bundle/pack-bundle.ts',
        'client/wallet/wallet-from-environment.ts',
      ],
      rules: { 'node/no-process-env': 'off' },
    },
    {
      files: ['client/**'],
      rules: {
        'no-restricted-imports': [
          'error',
          {
            patterns: [
              {
                group: ['**/../{api,workers,operator,shared,infra,test}/**', '#shared/**'],
                message: 'The client is a package of its own: it imports nothing of the service.',
              },
            ],
          },
        ],
      },
    },
    restrict(
      ['packages/**'],
      [
        {
          group: ['../**', '#*/**', 'zod', 'zod/**'],
          message: 'A package that service and client share imports only itself and Node’s own modules.',
        },
      ],
    ),
    restrict(['infra/**'], []),
    ...domainRooms,
    restrict(['shared/adapters/*.ts'], [BELOW_THE_HOUSES]),
    ...adapterRooms,
    restrict(['shared/chain/**'], withoutPorts('chain')),
    ...ledgerRooms,
    restrict(
      ['api/*.ts', 'workers/*.ts', 'operator/*.ts'],
      [...COMPOSED_ONLY, NEITHER_INFRA_NOR_TESTS, NOT_EACH_OTHER],
    ),
    ...roomsOf('api'),
    ...roomsOf('workers'),
    ...roomsOf('operator'),
    restrict(
      ['{api,workers,operator}/dependencies.ts', '{api,workers,operator}/composition/*.ts'],
      [
        {
          group: ['**/infra/**', '**/test/**', '**/../workers/**', '**/../api/**', '**/../operator/**'],
          message: 'A composition root imports its own process, shared and shared/adapters only.',
        },
      ],
    ),
  ],
})
