// A stand-in for a durable runner in plain Go: a goroutine for each slot, database/sql over SQLite
// at synchronous=FULL, one commit to claim a job, os/exec to run it, one commit to complete it.
//
//	durable QUEUE-FILE SLOTS SECONDS PROGRAM
//
// The queue file is made by bench/queue-file.ts. Prints {"jobs": …, "rate": …}.
package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

const claimSQL = `update job set status = 'running', started_at = ?, attempt = attempt + 1
	where seq = (select seq from job where status = 'queued' and run_at <= ?
		order by priority, run_at, seq limit 1)
	returning seq, id, command, payload`

const completeSQL = `update job set status = 'succeeded', completed_at = ?, result = ?
	where seq = ? and status = 'running'`

const logSQL = `insert into job_log (job_seq, status, started_at, completed_at, result)
	values (?, 'succeeded', ?, ?, ?)`

type job struct {
	seq                  int64
	id, command, payload string
	startedAt            int64
}

func main() {
	slots, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	db, err := sql.Open("sqlite3", "file:"+os.Args[1]+
		"?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_txlock=immediate")
	check(err)
	db.SetMaxOpenConns(1)
	claim, err := db.Prepare(claimSQL)
	check(err)

	var jobs int64
	var running sync.WaitGroup
	began := time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	for i := 0; i < slots; i++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for time.Now().Before(end) && runOne(db, claim, os.Args[4]) {
				atomic.AddInt64(&jobs, 1)
			}
		}()
	}
	running.Wait()
	fmt.Printf("{\"jobs\":%d,\"rate\":%.1f}\n", jobs, float64(jobs)/time.Since(began).Seconds())
	check(db.Close())
}

// runOne reports whether there was a job.
func runOne(db *sql.DB, claim *sql.Stmt, program string) bool {
	next := job{startedAt: time.Now().UnixMilli()}
	err := claim.QueryRow(next.startedAt, next.startedAt).
		Scan(&next.seq, &next.id, &next.command, &next.payload)
	if errors.Is(err, sql.ErrNoRows) {
		return false
	}
	check(err)
	complete(db, next, start(next, program))
	return true
}

func start(next job, program string) string {
	var stdout, stderr bytes.Buffer
	process := exec.Command(program)
	process.Stdin = strings.NewReader(`{"protocol":2,"job_id":"` + next.id + `","command":"` +
		next.command + `","config":{},"state":{},"context":{},"event":` + next.payload + "}\n")
	process.Stdout = &stdout
	process.Stderr = &stderr
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(process.Run())
	return stdout.String()
}

func complete(db *sql.DB, done job, result string) {
	completedAt := time.Now().UnixMilli()
	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec(completeSQL, completedAt, result, done.seq)
	check(err)
	_, err = tx.Exec(logSQL, done.seq, done.startedAt, completedAt, result)
	check(err)
	check(tx.Commit())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
