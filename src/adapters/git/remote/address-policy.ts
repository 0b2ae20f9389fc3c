import { lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { EngineError } from '../../../engine/ports.js'

/**
 * Whether an address is outside the public internet. This covers loopback, private, link-local, shared
 * (CGNAT), unspecified, multicast, documentation and reserved ranges, and IPv6 ranges that embed an IPv4
 * address. Text that is not an IP address counts as private.
 */
export function isPrivateAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 0) return true
  return family === 4 ? privateV4.check(address, 'ipv4') : privateV6.check(address, 'ipv6')
}

/**
 * Throws GIT_ADDRESS_REFUSED if the URL has a literal private address, to which Node connects without a
 * lookup.
 */
export function checkLiteralAddress(url: URL): void {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 && isPrivateAddress(host)) throw addressRefused(url.hostname)
}

/**
 * Like `dns.lookup`, but omits private addresses, so that the socket cannot connect to them. Fails with
 * GIT_ADDRESS_REFUSED if no other address is found.
 */
export const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, found) => {
    if (error !== null) return callback(error, [])
    const allowed = found.filter(({ address }) => !isPrivateAddress(address))
    const first = allowed[0]
    if (first === undefined) return callback(addressRefused(hostname), [])
    if (options.all === true) callback(null, allowed)
    else callback(null, first.address, first.family)
  })
}

function addressRefused(host: string): EngineError {
  return new EngineError(
    'GIT_ADDRESS_REFUSED',
    `${host} has a loopback or private address: the option git.allowPrivateAddresses allows it`,
    { host },
  )
}

// Two lists, because a rule for mapped IPv6 addresses would match every IPv4 address too.
const privateV4 = new BlockList()
const privateV6 = new BlockList()
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  privateV4.addSubnet(network, prefix, 'ipv4')
}
for (const [network, prefix] of [
  // Unspecified, loopback, IPv4-compatible and IPv4-mapped.
  ['::', 80],
  // Translated to IPv4, as in ::ffff:0:127.0.0.1.
  ['::ffff:0:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const) {
  privateV6.addSubnet(network, prefix, 'ipv6')
}
