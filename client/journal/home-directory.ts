import envPaths from 'env-paths'

/** Returns the directory of journal, pins and receipts: FAREBOX_HOME, or the system's place for application data. */
export function homeDirectory(environment: NodeJS.ProcessEnv = process.env): string {
  const { FAREBOX_HOME: home } = environment
  return home !== undefined && home !== '' ? home : envPaths('farebox', { suffix: '' }).data
}
