/** The public face of the package. Targets, and whatever needs a driver, are subpaths of their own. */
export { ConfigError, ConfigLoadError, type ConfigProblem } from './config/config-error.js';
export { type ConfigInput, type DefinedConfig, defineConfig } from './config/define-config.js';
export type { IsoDuration } from './config/iso-duration.js';
export { configFromEnvironment, loadConfig, type LoadedConfig, type LoadOptions } from './config/load-config.js';
export type { DatabaseSource, ResolvedConfig, SubjectConfig } from './config/resolved-config.js';
export { counters, type CounterSample } from './observe/counters.js';
export { ExpungeError, type ErrorOutcome, isExpungeError } from './observe/expunge-error.js';
export { createLog, type Log, type LogLevel, type LogOptions } from './observe/log.js';
export type { IdentifierDeclaration } from './subject/identifier.js';
export type { LocatorSource, Target, TargetDeclaration } from './targets/target.js';
