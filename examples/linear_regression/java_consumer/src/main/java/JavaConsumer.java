import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.tensorflow.Graph;
import org.tensorflow.Result;
import org.tensorflow.SavedModelBundle;
import org.tensorflow.Session;
import org.tensorflow.Tensor;
import org.tensorflow.TensorFlow;
import org.tensorflow.ndarray.StdArrays;
import org.tensorflow.proto.GraphDef;
import org.tensorflow.types.TFloat64;

/**
 * Loads the trained model, from a frozen graph (a file) or a SavedModel (a folder), and calculates with it. For a model
 * with ops of its own, further arguments are the libraries that have them.
 */
public final class JavaConsumer {
  private static final double[][] X = {{0}, {1}, {-1}, {2}};

  private JavaConsumer() {}

  public static void main(String[] arguments) throws IOException {
    Path model = Path.of(arguments.length > 0 ? arguments[0] : "frozen_graphs/frozen_graph.pb");
    for (int i = 1; i < arguments.length; i++) {
      TensorFlow.loadLibrary(arguments[i]);
    }
    try (TFloat64 x = TFloat64.tensorOf(StdArrays.ndCopyOf(X))) {
      double[] results = Files.isDirectory(model) ? runSavedModel(model, x) : runFrozenGraph(model, x);
      System.out.println("The calculation results : " + Arrays.toString(results));
    }
  }

  /** A frozen graph is one file, and knows no signature: the tensors are called by their names. */
  private static double[] runFrozenGraph(Path file, TFloat64 x) throws IOException {
    try (Graph graph = new Graph()) {
      graph.importGraphDef(GraphDef.parseFrom(Files.readAllBytes(file)));
      try (Session session = new Session(graph);
          Result results = session.runner().feed("inputs/x_sample", x).fetch("linear_regression/add").run()) {
        return column(results.get(0));
      }
    }
  }

  /** A SavedModel has signatures: its own keys, x and y, are all that one has to know. */
  private static double[] runSavedModel(Path folder, TFloat64 x) {
    try (SavedModelBundle bundle = SavedModelBundle.load(folder.toString(), "serve");
        Result results = bundle.function("serving_default").call(Map.of("x", x))) {
      return column(results.get("y").orElseThrow());
    }
  }

  private static double[] column(Tensor tensor) {
    double[][] rows = StdArrays.array2dCopyOf((TFloat64) tensor);
    return Arrays.stream(rows).mapToDouble(row -> row[0]).toArray();
  }
}
