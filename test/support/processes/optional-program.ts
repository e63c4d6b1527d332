import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Programs that some tests need and `npm ci` does not install, with their Debian packages. */
const DEBIAN_PACKAGES = {
  amtool: 'prometheus-alertmanager',
  apache2: 'apache2',
  caddy: 'caddy',
  ceph: 'ceph-common',
  'ceph-mon': 'ceph-mon',
  'ceph-osd': 'ceph-osd',
  chromium: 'chromium',
  curl: 'curl',
  debootstrap: 'debootstrap',
  'docker-compose': 'docker-compose',
  ffmpeg: 'ffmpeg',
  ffprobe: 'ffmpeg',
  haproxy: 'haproxy',
  kubectl: 'kubernetes-client',
  lame: 'lame',
  lighttpd: 'lighttpd',
  monmaptool: 'ceph-base',
  mp3cut: 'poc-streamer',
  mp3gain: 'mp3gain',
  mp3splt: 'mp3splt',
  mp3wrap: 'mp3wrap',
  mpg123: 'mpg123',
  nginx: 'nginx-light',
  pocketsphinx_continuous: 'pocketsphinx pocketsphinx-en-us pocketsphinx-testdata',
  podman: 'podman buildah netavark aardvark-dns iptables catatonit',
  prometheus: 'prometheus',
  'prometheus-alertmanager': 'prometheus-alertmanager',
  promtool: 'prometheus',
  python3: 'python3',
  radosgw: 'radosgw',
  'radosgw-admin': 'ceph-common',
  'redis-server': 'redis-server',
  runc: 'runc',
  sox: 'sox',
  squid: 'squid',
  'swift-account-server': 'swift-account',
  'swift-container-server': 'swift-container',
  'swift-object-server': 'swift-object',
  'swift-proxy-server': 'swift-proxy',
  'swift-ring-builder': 'swift',
  uuidgen: 'uuid-runtime',
  varnishd: 'varnish',
} as const

export type OptionalProgram = keyof typeof DEBIAN_PACKAGES

function findOnPath(program: string): string | undefined {
  const places = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, program))
  return places.find((place) => {
    try {
      accessSync(place, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Returns the full path of an installed program. */
export function pathOf(program: OptionalProgram): string {
  const path = findOnPath(program)
  if (path === undefined) throw new Error(`${program} is not on the PATH`)
  return path
}

/**
 * Returns whether all programs are installed, for `describe.skipIf(!havePrograms('lame'))`. Warns when one is missing;
 * with `CI=true` it throws instead, so that CI skips nothing.
 */
export function havePrograms(...programs: readonly OptionalProgram[]): boolean {
  const missing = programs.filter((program) => findOnPath(program) === undefined)
  if (missing.length === 0) return true
  const packages = [...new Set(missing.map((program) => DEBIAN_PACKAGES[program]))].join(' ')
  const message = `These tests need ${missing.join(', ')}, not found on the PATH: apt-get install ${packages}`
  if (process.env['CI'] === 'true') throw new Error(message)
  console.warn(`SKIPPED. ${message}`)
  return false
}
