package towpath;

import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, without a process for every file, and with files that survive a power cut.
 *
 * <p>Hadoop sets the permissions of each new file, and of its checksum. Without its native library, which is in no
 * package, it starts {@code chmod} for that. A new file has the permissions that the process gives it anyway.
 *
 * <p>Hadoop leaves it to the operating system when a file reaches the disk. With {@code towpath.files.durable} a
 * file is there when it is closed, and its name when it is renamed.
 */
public class PlainLocalFileSystem extends LocalFileSystem {
  private static final class Files extends RawLocalFileSystem {
    private boolean durable;

    @Override
    public void initialize(URI uri, Configuration configuration) throws IOException {
      super.initialize(uri, configuration);
      durable = configuration.getBoolean("towpath.files.durable", false);
    }

    @Override
    public void setPermission(Path path, FsPermission permission) {
      // The process's umask has done it.
    }

    @Override
    protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission)
        throws IOException {
      OutputStream file = super.createOutputStreamWithMode(path, append, permission);
      return durable ? new Durable(file) : file;
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      boolean renamed = super.rename(from, to);
      if (renamed && durable) {
        try (FileChannel directory =
            FileChannel.open(pathToFile(to).getParentFile().toPath(), StandardOpenOption.READ)) {
          directory.force(true);
        }
      }
      return renamed;
    }
  }

  /** A file whose content is on the disk when it is closed. */
  private static final class Durable extends FilterOutputStream {
    Durable(OutputStream file) {
      super(file);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length); // The inherited one writes byte by byte.
    }

    @Override
    public void close() throws IOException {
      try {
        flush();
        ((Syncable) out).hsync();
      } finally {
        super.close();
      }
    }
  }

  public PlainLocalFileSystem() {
    super(new Files());
  }
}
