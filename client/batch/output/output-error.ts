import { FareboxError, type MoneyState } from '../../wire/farebox-error.ts'

/** Returns the error for a transcript that cannot be written; one that is paid for can be had again. */
export function outputError(path: string, cause: unknown, money: MoneyState): FareboxError {
  return new FareboxError({
    code: 'output_unwritable',
    problem: `${path} cannot be written (${whyUnwritable(cause)}).`,
    money,
    advice:
      money === 'none'
        ? 'Make room or choose another folder with --out, then run the command again.'
        : 'Make room or choose another folder with --out, then run the command again within seven days: the service repeats the transcript without another charge.',
    cause,
  })
}

/** Returns the reason that the file system stated, in words. */
export function whyUnwritable(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the disk is read-only',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ENOTDIR: 'a part of its path is a file',
  EEXIST: 'a part of its path is a file',
  ENAMETOOLONG: 'its name is too long',
}
