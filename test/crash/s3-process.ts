/** The server of S3 that is killed. It serves until its standard input ends. */
import { argv, stdin, stdout } from 'node:process'
import { S3Server } from '../support/s3-server.js'
import type { S3ProcessArguments } from './killed-bucket.js'

const { directory, bucket, port } = JSON.parse(argv[2] ?? '') as S3ProcessArguments
const server = await S3Server.start(directory, port)
server.createBucket(bucket)
stdout.write(`${server.port}\n`)
stdin.resume().on('end', () => void server.close())
