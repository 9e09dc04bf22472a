CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL
);
INSERT INTO "alembic_version" VALUES('0012');
CREATE TABLE calls (
	id INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	begin_step INTEGER NOT NULL, 
	begin_row INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	is_final BOOLEAN NOT NULL, 
	is_anomaly BOOLEAN NOT NULL, 
	is_open BOOLEAN NOT NULL, 
	is_gpu BOOLEAN NOT NULL, 
	thread INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	entry_us BIGINT NOT NULL, 
	inclusive_us BIGINT NOT NULL, 
	exclusive_us BIGINT NOT NULL, 
	step INTEGER NOT NULL, 
	score DOUBLE NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	expected_us DOUBLE NOT NULL, 
	spread_us DOUBLE NOT NULL, 
	seen BIGINT NOT NULL, 
	model_version BIGINT NOT NULL, 
	depth INTEGER NOT NULL, 
	children INTEGER NOT NULL, 
	messages_count INTEGER NOT NULL, 
	left_out INTEGER NOT NULL, 
	launch_step INTEGER NOT NULL, 
	launch_row INTEGER NOT NULL, 
	incident_id TEXT, 
	details BLOB NOT NULL, path INTEGER DEFAULT '-1' NOT NULL, launch_thread INTEGER DEFAULT '-1' NOT NULL, is_relabelled BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_calls PRIMARY KEY (id), 
	CONSTRAINT uq_calls UNIQUE (run, program, rank, begin_step, begin_row)
);
CREATE TABLE counter_statistics (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	counter INTEGER NOT NULL, 
	n DOUBLE NOT NULL, 
	mean DOUBLE NOT NULL, 
	m2 DOUBLE NOT NULL, 
	m3 DOUBLE NOT NULL, 
	m4 DOUBLE NOT NULL, 
	minimum DOUBLE NOT NULL, 
	maximum DOUBLE NOT NULL, 
	CONSTRAINT pk_counter_statistics PRIMARY KEY (run, program, rank, counter)
)
 WITHOUT ROWID

;
CREATE TABLE dropped (
	run INTEGER NOT NULL, 
	stream TEXT NOT NULL, 
	function TEXT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	CONSTRAINT pk_dropped PRIMARY KEY (run, stream, function)
)
 WITHOUT ROWID

;
CREATE TABLE function_statistics (
	run INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	calls BIGINT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	exclusive_mean_us DOUBLE NOT NULL, 
	exclusive_stddev_us DOUBLE NOT NULL, 
	exclusive_minimum_us DOUBLE NOT NULL, 
	exclusive_maximum_us DOUBLE NOT NULL, 
	inclusive_mean_us DOUBLE NOT NULL, 
	inclusive_maximum_us DOUBLE NOT NULL, 
	drift DOUBLE DEFAULT '1' NOT NULL, flagged_steps BIGINT DEFAULT '0' NOT NULL, fewest_flagged BIGINT DEFAULT '0' NOT NULL, most_flagged BIGINT DEFAULT '0' NOT NULL, flagged_squares DOUBLE DEFAULT '0' NOT NULL, flagged_cubes DOUBLE DEFAULT '0' NOT NULL, flagged_fourths DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_function_statistics PRIMARY KEY (run, function)
)
 WITHOUT ROWID

;
CREATE TABLE function_totals (
	run INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, 
	first_us BIGINT NOT NULL, 
	last_us BIGINT NOT NULL, 
	CONSTRAINT pk_function_totals PRIMARY KEY (run, function)
)
 WITHOUT ROWID

;
CREATE TABLE functions (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	CONSTRAINT pk_functions PRIMARY KEY (run, number)
);
CREATE TABLE incidents (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	merged_into INTEGER NOT NULL, 
	is_gone BOOLEAN NOT NULL, 
	program INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	rank INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	call TEXT NOT NULL, 
	begin_us BIGINT NOT NULL, 
	end_us BIGINT NOT NULL, 
	flags BIGINT NOT NULL, 
	ranks BIGINT NOT NULL, 
	cost_us DOUBLE NOT NULL, 
	sentence TEXT NOT NULL, 
	details BLOB NOT NULL, 
	CONSTRAINT pk_incidents PRIMARY KEY (run, number)
);
CREATE TABLE metadata (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	thread INTEGER NOT NULL, 
	"key" INTEGER NOT NULL, 
	value INTEGER NOT NULL, 
	CONSTRAINT pk_metadata PRIMARY KEY (run, program, rank, thread, "key")
)
 WITHOUT ROWID

;
CREATE TABLE metric_findings (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	quantity TEXT NOT NULL, 
	begin_us BIGINT NOT NULL, 
	found_us BIGINT NOT NULL, 
	sentence TEXT NOT NULL, 
	details BLOB NOT NULL, 
	CONSTRAINT pk_metric_findings PRIMARY KEY (run, number)
);
CREATE TABLE models (
	run INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	model BLOB NOT NULL, 
	CONSTRAINT pk_models PRIMARY KEY (run, function, version)
);
CREATE TABLE node_samples (
	run INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	sequence BIGINT NOT NULL, 
	begin_us BIGINT NOT NULL, 
	end_us BIGINT NOT NULL, 
	is_sum BOOLEAN NOT NULL, 
	rows BLOB NOT NULL, 
	CONSTRAINT pk_node_samples PRIMARY KEY (run, node, sequence)
);
CREATE TABLE node_states (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	counters BLOB NOT NULL, 
	CONSTRAINT pk_node_states PRIMARY KEY (run, program, rank, step)
);
CREATE TABLE path_statistics (
	run INTEGER NOT NULL, 
	path INTEGER NOT NULL, 
	calls BIGINT NOT NULL, 
	exclusive_mean_us DOUBLE NOT NULL, 
	exclusive_stddev_us DOUBLE NOT NULL, 
	exclusive_minimum_us DOUBLE NOT NULL, 
	exclusive_maximum_us DOUBLE NOT NULL, 
	inclusive_mean_us DOUBLE NOT NULL, 
	inclusive_stddev_us DOUBLE NOT NULL, 
	inclusive_minimum_us DOUBLE NOT NULL, 
	inclusive_maximum_us DOUBLE NOT NULL, 
	CONSTRAINT pk_path_statistics PRIMARY KEY (run, path)
)
 WITHOUT ROWID

;
CREATE TABLE path_totals (
	run INTEGER NOT NULL, 
	path INTEGER NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, 
	first_us BIGINT NOT NULL, 
	last_us BIGINT NOT NULL, 
	CONSTRAINT pk_path_totals PRIMARY KEY (run, path)
)
 WITHOUT ROWID

;
CREATE TABLE paths (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	parent INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	depth INTEGER NOT NULL, 
	CONSTRAINT pk_paths PRIMARY KEY (run, number)
);
CREATE TABLE programs (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	CONSTRAINT pk_programs PRIMARY KEY (run, program)
)
 WITHOUT ROWID

;
CREATE TABLE prunings (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	function INTEGER NOT NULL, 
	pruned_us BIGINT NOT NULL, 
	rule TEXT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	CONSTRAINT pk_prunings PRIMARY KEY (run, number, function)
)
 WITHOUT ROWID

;
CREATE TABLE rank_paths (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	calls BIGINT NOT NULL, 
	paths BLOB NOT NULL, 
	CONSTRAINT pk_rank_paths PRIMARY KEY (run, program, rank)
);
CREATE TABLE rank_totals (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, 
	first_us BIGINT NOT NULL, 
	last_us BIGINT NOT NULL, 
	CONSTRAINT pk_rank_totals PRIMARY KEY (run, program, rank)
)
 WITHOUT ROWID

;
CREATE TABLE recurrences (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	function INTEGER NOT NULL, 
	calls BIGINT NOT NULL, 
	begin_us BIGINT NOT NULL, 
	end_us BIGINT NOT NULL, 
	cost_us DOUBLE NOT NULL, 
	sentence TEXT NOT NULL, 
	details BLOB NOT NULL, 
	CONSTRAINT pk_recurrences PRIMARY KEY (run, number)
);
CREATE TABLE runs (
	number INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	command JSON NOT NULL, 
	state TEXT NOT NULL, 
	started_us BIGINT NOT NULL, 
	ended_us BIGINT NOT NULL, 
	exit_code INTEGER, 
	host TEXT NOT NULL, 
	store_url TEXT NOT NULL, 
	config JSON NOT NULL, 
	version TEXT NOT NULL, 
	trace_bytes BIGINT NOT NULL, 
	stored_bytes BIGINT NOT NULL, environment JSON DEFAULT '{}' NOT NULL, transport TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (number), 
	CONSTRAINT uq_runs UNIQUE (id)
);
CREATE TABLE step_histograms (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	anomalies BIGINT NOT NULL, 
	steps BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	last_step BIGINT NOT NULL, 
	CONSTRAINT pk_step_histograms PRIMARY KEY (run, program, rank, anomalies)
)
 WITHOUT ROWID

;
CREATE TABLE step_levels (
	run INTEGER NOT NULL, 
	level INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	bucket INTEGER NOT NULL, 
	steps BIGINT NOT NULL, 
	start_us BIGINT NOT NULL, 
	end_us BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, most_anomalies BIGINT DEFAULT '0' NOT NULL, peaks BIGINT DEFAULT '0' NOT NULL, highest_lost_us DOUBLE DEFAULT '0' NOT NULL, lost_peaks BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_step_levels PRIMARY KEY (run, level, program, rank, bucket)
)
 WITHOUT ROWID

;
CREATE TABLE step_totals (
	run INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, 
	first_us BIGINT NOT NULL, 
	last_us BIGINT NOT NULL, 
	CONSTRAINT pk_step_totals PRIMARY KEY (run, step)
)
 WITHOUT ROWID

;
CREATE TABLE steps (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	start_us BIGINT NOT NULL, 
	end_us BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, highest_score DOUBLE DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_steps PRIMARY KEY (run, program, rank, step)
)
 WITHOUT ROWID

;
CREATE TABLE stream_health (
	run INTEGER NOT NULL, 
	program INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	node TEXT NOT NULL, 
	state TEXT NOT NULL, 
	steps BIGINT NOT NULL, 
	rows BIGINT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	gap_steps BIGINT NOT NULL, 
	losses JSON NOT NULL, 
	silence JSON, 
	largest_step_bytes BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_stream_health PRIMARY KEY (run, program, rank)
)
 WITHOUT ROWID

;
CREATE TABLE texts (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	CONSTRAINT pk_texts PRIMARY KEY (run, number)
);
CREATE TABLE time_totals (
	run INTEGER NOT NULL, 
	level INTEGER NOT NULL, 
	bucket BIGINT NOT NULL, 
	anomalies BIGINT NOT NULL, 
	normal_calls BIGINT NOT NULL, 
	severity_us DOUBLE NOT NULL, 
	highest_severity_us DOUBLE NOT NULL, 
	highest_score DOUBLE NOT NULL, 
	first_us BIGINT NOT NULL, 
	last_us BIGINT NOT NULL, 
	CONSTRAINT pk_time_totals PRIMARY KEY (run, level, bucket)
)
 WITHOUT ROWID

;
CREATE INDEX ix_calls_severity_us ON calls (run, is_anomaly, severity_us);
CREATE INDEX ix_calls_score ON calls (run, is_anomaly, score);
CREATE INDEX ix_calls_entry_us ON calls (run, is_anomaly, entry_us);
CREATE INDEX ix_calls_exclusive_us ON calls (run, is_anomaly, exclusive_us);
CREATE INDEX ix_calls_inclusive_us ON calls (run, is_anomaly, inclusive_us);
CREATE INDEX ix_calls_step ON calls (run, is_anomaly, step);
CREATE INDEX ix_calls_function ON calls (run, function, is_anomaly, severity_us);
CREATE INDEX ix_calls_rank ON calls (run, rank, is_anomaly, severity_us);
CREATE INDEX ix_calls_path ON calls (run, path, is_anomaly, severity_us);
CREATE INDEX ix_calls_gpu ON calls (run, severity_us) WHERE is_gpu = 1;
CREATE INDEX ix_calls_open ON calls (run, severity_us) WHERE is_open = 1;
CREATE INDEX ix_incidents_cost_us ON incidents (run, cost_us);
CREATE INDEX ix_incidents_begin_us ON incidents (run, begin_us);
CREATE INDEX ix_calls_incident_id ON calls (run, incident_id, is_anomaly, severity_us) WHERE incident_id IS NOT NULL;
CREATE INDEX ix_calls_relabelled ON calls (run, program, rank) WHERE is_relabelled;
CREATE VIEW anomalies AS SELECT r.id AS run_id, CAST(c.program AS TEXT) || ':' || CAST(c.rank AS TEXT) || ':' || CAST(c.begin_step AS TEXT) || ':' || CAST(c.begin_row AS TEXT) AS call, c.program, c.rank, h.node, c.thread, c.step, f.name AS function, c.path, c.entry_us, CASE WHEN c.is_open THEN NULL ELSE c.entry_us + c.inclusive_us END AS exit_us, c.inclusive_us, c.exclusive_us, c.severity_us, c.score, c.expected_us, c.spread_us, c.seen, c.depth, c.children, c.messages_count, c.is_open, c.is_gpu, c.incident_id, c.is_relabelled FROM calls AS c JOIN runs AS r ON r.number = c.run JOIN functions AS f ON f.run = c.run AND f.number = c.function LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank WHERE c.is_anomaly;
CREATE VIEW normal_calls AS SELECT r.id AS run_id, CAST(c.program AS TEXT) || ':' || CAST(c.rank AS TEXT) || ':' || CAST(c.begin_step AS TEXT) || ':' || CAST(c.begin_row AS TEXT) AS call, c.program, c.rank, h.node, c.thread, c.step, f.name AS function, c.path, c.entry_us, CASE WHEN c.is_open THEN NULL ELSE c.entry_us + c.inclusive_us END AS exit_us, c.inclusive_us, c.exclusive_us, c.severity_us, c.score, c.expected_us, c.spread_us, c.seen, c.depth, c.children, c.messages_count, c.is_open, c.is_gpu, c.incident_id, c.is_relabelled FROM calls AS c JOIN runs AS r ON r.number = c.run JOIN functions AS f ON f.run = c.run AND f.number = c.function LEFT JOIN stream_health AS h ON h.run = c.run AND h.program = c.program AND h.rank = c.rank WHERE NOT c.is_anomaly
